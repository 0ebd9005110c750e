"""Updates of many arrays at once, each of which is one call on a tape.

These are functions ``(arrays, ...)`` that overwrite the arrays. If they cannot, they change nothing
and return None.
"""


class Step:
    """Makes an optimizer's step by `MultiTensorUpdater.update` of the parameters and their state.

    count: how many arrays there are for each parameter, including itself.
    """

    __name__ = "optimizer_step"

    def __init__(self, updater, kernel, count):
        self.updater, self.kernel, self.count = updater, kernel, count

    def __call__(self, arrays, grads, numbers):
        n = self.count
        entries = [self.updater.entry(arrays[i : i + n]) for i in range(0, len(arrays), n)]
        if None in entries or not self.updater.update(entries, grads, self.kernel, numbers):
            return None
        return arrays


class RecordedUpdater:
    """Replaces a `MultiTensorUpdater` while a function is recorded."""

    def __init__(self, updater):
        self.updater = updater

    def update(self, entries, grads, name, numbers, skip=None):
        """Like the method of the real one, but an entry is a sequence of traced arrays."""
        if skip is not None:
            return False
        arrays = tuple([x for entry in entries for x in entry])
        step = Step(self.updater, name, len(entries[0]))
        return arrays[0].recorder.write(arrays, step, (tuple(grads), tuple(numbers)))

    def entry(self, arrays):
        return arrays

    def norm(self, arrays, most):
        return arrays[0].recorder.call(self.updater.norm, (tuple(arrays), most))

    def scale(self, arrays, factor, found=None):
        if found is not None:
            return False

        def scale(arrays, factor):
            return arrays if self.updater.scale(arrays, factor) else None

        return arrays[0].recorder.write(tuple(arrays), scale, (factor,))
