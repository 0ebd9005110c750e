"""`autocast`: regions of a program in which products are computed in 16 bits."""

from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from threading import get_ident
from typing import Any, NamedTuple

from .._arguments import require
from .._dtypes import is_half, isdtype
from .._thread_state import restores_state, thread
from .._typing import F
from ..autograd.casting import need_stages
from ..autograd.implementation import clear
from ..backends import parse_device
from ..backends.dtypes import bfloat16, float16, number_dtype

_IN_STEPS = iscoroutinefunction, isasyncgenfunction, isgeneratorfunction


class Region(NamedTuple):
    """The inside of a ``with autocast():``.

    dtypes: the dtype for each kind of device, ``"cpu"`` and ``"cuda"``; a kind is missing if
        autocast is switched off for it.
    casts: what leaves have been cast to so far, by the leaves' nodes; None to keep no casts.
    """

    dtypes: dict[str, str]
    casts: dict[Any, Any] | None

    def without_casts(self):
        """The same region before any leaf has been cast."""
        return Region(self.dtypes, self.casts if self.casts is None else {})


class autocast:
    """Inside ``with autocast():``, ops choose their dtypes as PyTorch's autocast does.

    - Products compute in ``dtype`` and return it: ``matmul``, ``einsum``, ``linear``, ``dense``,
      convolution, recurrence and attention.
    - Functions that need float32 compute in it and return it: ``exp``, ``log``, ``pow``,
      ``softmax``, sums, norms, layer norm, losses and others.
    - Joining arrays, as ``concat``, ``stack`` and ``where`` do, takes the widest dtype.
    - All other ops keep the dtypes that they are given, so that a bias, an activation or dropout
      stays in 16 bits.

    float64, complex numbers and integers are left alone. Parameters stay in float32: the first op
    that uses one in an outermost region casts it, later ops take the same cast, and its gradient is
    float32.

    Put the forward pass and the loss inside, and backward outside, which computes in the dtypes of
    the forward pass anyway. Regions nest; ``enabled=False`` switches an outer one off. They belong
    to the thread that enters them. A region is also a decorator. When `checkpoint` runs a function
    again, it does so in the region of the first run.

    device_type: ``"cpu"`` or ``"cuda"``, to cast only arrays there; by default all.
    dtype: bfloat16 or float16; by default float16 for ``"cuda"``, and else bfloat16.
    cache_enabled: whether to keep the casts of parameters until the outermost region ends.

    Raises ValueError for other devices and dtypes, and ImportError if bfloat16 is asked for and the
    package ``ml_dtypes`` is missing.

    >>> import gpugrad as gg
    >>> x = gg.ones((2, 3))
    >>> with gg.amp.autocast(dtype=gg.float16):
    ...     y = x @ x.T
    ...     total = y.sum()
    >>> y.dtype, total.dtype
    (dtype('float16'), dtype('float32'))
    """

    def __init__(
        self,
        device_type: str | None = None,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool = True,
    ) -> None:
        what = "autocast: pass a dtype as autocast(dtype=...); device_type must be 'cpu' or 'cuda'"
        require(device_type is None or isinstance(device_type, str), what, device_type)
        kinds = ("cpu", "cuda") if device_type is None else (parse_device(device_type)[0],)
        if not enabled:
            dtype = None
        elif dtype is None:
            dtype = float16 if kinds == ("cuda",) else bfloat16()
        else:
            dtype = number_dtype(dtype)
            if not (isdtype(dtype, "real floating") and is_half(dtype)):
                raise ValueError(f"autocast: dtype must be bfloat16 or float16, not {dtype}")
        self._kinds = kinds
        self._dtype = dtype
        self._cache_enabled = cache_enabled
        self._outer: dict[int, list] = {}  # what to go back to, by thread

    def __enter__(self) -> "autocast":
        outer = thread.autocast
        dtypes = ({} if outer is None else outer.dtypes) | dict.fromkeys(self._kinds, self._dtype)
        dtypes = {kind: dtype for kind, dtype in dtypes.items() if dtype is not None}
        if dtypes and need_stages():
            clear()
        casts: Any = {} if outer is None or outer.casts is None else outer.casts
        self._outer.setdefault(get_ident(), []).append(outer)
        thread.autocast = Region(dtypes, casts if self._cache_enabled else None)
        return self

    def __exit__(self, *exc_info: object) -> None:
        thread.autocast = self._outer[get_ident()].pop()

    def __call__(self, function: F) -> F:
        if any(runs_in_steps(function) for runs_in_steps in _IN_STEPS):
            raise TypeError(
                f"autocast: {function!r} is a generator or an async function, between whose steps "
                f"others run; write `with autocast():` in it, around code without yield and "
                f"await"
            )

        @wraps(function)
        @restores_state
        def wrapped(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"autocast({', '.join(self._kinds)}, dtype={self._dtype})"


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread is in a region that casts, for a kind of device or for any."""
    dtypes = {} if thread.autocast is None else thread.autocast.dtypes
    return bool(dtypes) if device_type is None else parse_device(device_type)[0] in dtypes
