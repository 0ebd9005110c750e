"""What `DataParallel` does in a function that `compile` records."""

from .._processes import current
from .._processes.replayed import Start, poll
from .._thread_state import thread
from ..backends import backend_of


class Mode:
    """What decides, besides the graph, what a backward pass does; see `DataParallel.no_sync`.

    enabled: whether it averages gradients.
    outcomes: which parameters had a gradient in any process when this one had the gradients of the
        key; only those that differ from the key.
    """

    is_program_state = True  # which `gpugrad.compile` looks into

    def __init__(self):
        self.enabled = True
        self.outcomes = {}

    def expected(self, own):
        """What the exchange of flags will give, as far as is known."""
        return self.outcomes.get(own, own)

    def note(self, own, flags):
        """Remember the outcome of an exchange of flags."""
        if flags != own:
            self.outcomes[own] = bytes(flags)
        elif self.outcomes:
            self.outcomes.pop(own, None)


class RecordedPass:
    """Notes what a pass does, for a program to do in each run.

    The program is for one outcome of the exchange of flags, that of the last call in which this
    process had the same gradients; if there is none, of a call in which the others have the same.
    """

    def __init__(self, buckets, flags, mode):
        self._buckets = buckets
        self._mode = mode
        self._own_flags = own = bytes(flags)
        self._grads = [{} for _ in buckets]
        self._note = thread.recorder.communicate
        self.waited_for = set(range(len(flags)))
        self.missing = [len(bucket.members) for bucket in buckets]
        self.started = []

        def start():
            flags = bytearray(own)
            return flags, current().any_of(flags)

        self._flags_reduced = self._note(Start("exchange_of_flags", start))

    def put(self, b, start, stop, grad):
        bucket = self._buckets[b]
        if grad is None:
            backend = backend_of[type(bucket.like)]
            grad = backend.zeros((stop - start,), bucket.like.dtype, bucket.like)
        self._grads[b][start, stop] = grad

    def start(self):
        b = len(self.started)
        bucket, factor = self._buckets[b], 1 / current().size
        backend = backend_of[type(bucket.like)]

        def start(*grads):
            with backend.scope(bucket.like):
                joined = backend.xp.concat(grads, axis=None)
                array = backend.xp.astype(joined, bucket.dtype, copy=False)
                array *= factor
            return array, current().all_reduce(array)

        grads = [self._grads[b][start, stop] for _, start, stop in bucket.members]
        self.started.append(self._note(Start("mean", start), grads))

    def poll(self):
        if self.started:
            self._note(poll, self.started)

    def finish(self, parameters):
        expected = self._mode.expected(self._own_flags)
        self._note(_Flags(self._mode, self._own_flags, expected), (self._flags_reduced,))
        for bucket, token in zip(self._buckets, self.started, strict=True):
            members = [
                (number, (start, stop, parameters[number].shape), parameters[number].array)
                for number, start, stop in bucket.members
                if expected[number]
            ]
            end = _Gradients(bucket, [place for _, place, _ in members])
            results = [(shape, array) for _, (_, _, shape), array in members]
            found = self._note(end, (token,), results)
            for k, (number, *_) in enumerate(members):
                yield number, found[k]


class _Flags:
    """The end of an exchange of flags in a program, which was recorded for one outcome."""

    __name__ = "end_of_exchange_of_flags"

    def __init__(self, mode, own, expected):
        self._mode = mode
        self._own = own
        self._expected = expected

    def __call__(self, started):
        flags = started.wait()
        if flags != self._expected:
            self._mode.note(self._own, flags)
            raise RuntimeError(
                "DataParallel: in a compiled function, the loss reaches other parameters in some "
                "process than in the calls before, though here it reaches the same; leave the "
                "function uncompiled, or have the loss reach the same parameters in each call"
            )


class _Gradients:
    """The end of the reduction of a bucket in a program: the gradients."""

    __name__ = "end_of_mean"

    def __init__(self, bucket, places):
        self._bucket = bucket
        self._places = places

    def __call__(self, started):
        array = started.wait()
        return [self._bucket.part(array, *place) for place in self._places]
