// Prints the results of the site's search for each line of the input, with the site's own scripts.
// node search.js SITE < queries

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site] = process.argv.slice(2);
const nothing = { addEventListener() {}, dataset: {}, appendChild: (child) => child };
const page = {
  console,
  document: {
    ...nothing,
    readyState: "loading",
    documentElement: { dataset: { content_root: "./" } },
    getElementById: () => null,
  },
  localStorage: { setItem() {}, getItem: () => null },
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
};
page.window = page;
vm.createContext(page);
let program = "";
for (const name of ["_static/doctools.js", "_static/language_data.js", "_static/searchtools.js"]) {
  program += fs.readFileSync(path.join(site, name), "utf-8") + "\n";
}
program += fs.readFileSync(path.join(site, "searchindex.js"), "utf-8");
program += "\nfunction find(query) { return Search._performSearch(...Search._parseQuery(query)); }";
vm.runInContext(program, page);
for (const query of fs.readFileSync(0, "utf-8").trim().split("\n")) {
  page.query = query;
  // The best result is the last.
  const found = vm.runInContext("find(query)", page).reverse().slice(0, 10);
  console.log(JSON.stringify(found.map(([name, title, anchor, , score]) => [name + anchor, title, score])));
}
