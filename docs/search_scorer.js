// How the search ranks pages: Sphinx's numbers, but pages for the library's developers come after
// those for its users.
var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("development/") ? score - 4 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
