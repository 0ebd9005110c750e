"""Updates of many arrays at once, noted as one call each.

They are functions ``(arrays, ...)`` that return the new arrays, or None where they cannot do it.
Their method ``write`` overwrites the arrays themselves instead, and returns them.
"""


class _Update:
    def __init__(self, updater, duplicate):
        self.updater = updater
        self.duplicate = duplicate

    def __call__(self, arrays, *args):
        return self.write([self.duplicate(x) for x in arrays], *args)


class Step(_Update):
    """An optimizer's step: `MultiTensorUpdater.update` of parameters and their state.

    count: how many arrays belong to each parameter.
    """

    __name__ = "optimizer_step"

    def __init__(self, updater, duplicate, kernel, count):
        super().__init__(updater, duplicate)
        self.kernel = kernel
        self.count = count

    def write(self, arrays, grads, numbers):
        n = self.count
        entries = [self.updater.entry(arrays[i : i + n]) for i in range(0, len(arrays), n)]
        if None in entries or not self.updater.update(entries, grads, self.kernel, numbers):
            return None
        return list(arrays)


class Scale(_Update):
    """`MultiTensorUpdater.scale`."""

    __name__ = "scale"

    def write(self, arrays, factor):
        return list(arrays) if self.updater.scale(arrays, factor) else None


class Blend(_Update):
    """`Backend.blend` of one array; ``updater`` is the backend."""

    __name__ = "blend"

    def write(self, arrays, y, a, b):
        return list(arrays) if self.updater.blend(*arrays, y, a, b) else None


class RecordedUpdater:
    """Stands for a `MultiTensorUpdater` while a function is recorded."""

    def __init__(self, updater, duplicate):
        self.updater = updater
        self.duplicate = duplicate

    def update(self, entries, grads, name, numbers, skip=None):
        """As the real one's; an entry is the traced arrays themselves."""
        if skip is not None:
            return False
        arrays = [x for entry in entries for x in entry]
        step = Step(self.updater, self.duplicate, name, len(entries[0]))
        return arrays[0].recording.write_together(arrays, step, (tuple(grads), tuple(numbers)))

    def norm(self, arrays, most):
        return arrays[0].recording.call(self.updater.norm, (tuple(arrays), most))

    def scale(self, arrays, factor):
        scale = Scale(self.updater, self.duplicate)
        return arrays[0].recording.write_together(arrays, scale, (factor,))

    def unscale(self, arrays, factor, found):
        return False
