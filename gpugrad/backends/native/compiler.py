"""The machine's C compiler, which makes libraries in the background, and a cache of libraries.

Nobody waits for the compiler: `build` returns at once, and its `Build` has the library as soon as
it is compiled. It is no error if there is no compiler, and so never a library.
"""

import atexit
import contextlib
import ctypes
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock, RLock, Thread

_IS_ARM = platform.machine().lower() in ("arm64", "aarch64")
# None of these flags lets the compiler change a result: it neither fuses, reorders nor leaves out
# operations, integers wrap around, as NumPy's do, and memory may hold numbers of one type after
# another. GCC 12 would leave out the rounding where it joins two conversions from double to float
# and back, outside of loops, into vectors.
FLAGS = (
    "-std=gnu11 -ffp-contract=off -fno-math-errno -fno-trapping-math -fwrapv "
    "-fno-strict-aliasing -fno-tree-slp-vectorize -shared -pthread -w"
).split()
FLAGS += ["-mcpu=native" if _IS_ARM else "-march=native"]
FLAGS += [] if sys.platform == "win32" else ["-fPIC"]
# The second for long texts, for which compilers would take nearly twice as long with the first.
_OPTIMIZED = ["-O3"], "-O2 -ftree-vectorize -fvect-cost-model -fpeel-loops".split()
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_MOST_FILES, _MOST_BYTES = 500, 100 << 20  # in the cache
_FORGOTTEN = 3600  # seconds after which no compiler works in its folder any more
# Folders of macOS's compilers. Without them, `/usr/bin/cc` asks in a window whether to install one.
_MACOS = "/Library/Developer/CommandLineTools", "/Applications/Xcode.app"
_OFF = "0", "off", "false", "no"
_TEMPORARY = "gpugrad-"  # begins the names of folders that are removed


@cache
def command() -> list[str] | None:
    """The command of the C compiler, or None if there is none or ``GPUGRAD_NATIVE`` is off.

    It is the first one found of ``$CC``, ``cc``, ``clang``, ``gcc`` and that of the package
    ``ziglang``.
    """
    if _is_off():
        return None
    for name in (os.environ.get("CC", ""), "cc", "clang", "gcc"):
        words = shlex.split(name, posix=os.name == "posix")  # Windows' paths have backslashes
        path = shutil.which(words[0]) if words else None
        would_ask = sys.platform == "darwin" and not any(map(os.path.exists, _MACOS))
        if path is not None and not (would_ask and path.startswith("/usr/bin/")):
            return [path, *words[1:]]
    return None if find_spec("ziglang") is None else [sys.executable, "-m", "ziglang", "cc"]


def _is_off():
    return os.environ.get("GPUGRAD_NATIVE", "").lower() in _OFF


@cache
def _machine():
    """All that the code of a library depends on besides its source, as bytes."""
    words = command() or []
    spec = find_spec("ziglang") if "ziglang" in words else None
    path = os.path.realpath(words[0] if spec is None else spec.origin or "")
    found = os.stat(path)  # in place of the compiler's version, which only a run of it tells
    processor = platform.node()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        lines = iter(file.readline, "\n")  # those of the first processor
        names = ("vendor", "model", "cpu family", "flags", "Features", "CPU ")
        processor = "".join(line for line in lines if line.startswith(names))
    parts = words, FLAGS, path, found.st_size, found.st_mtime_ns, platform.machine(), processor
    return repr(parts).encode()


@cache
def folder() -> Path:
    """The folder of the libraries: the user's cache, or a temporary one if others may write there.

    A temporary folder is removed when the interpreter ends. Raises OSError if there is none, or if
    others may put another one in its place.
    """
    home = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": "~/Library/Caches"}.get(sys.platform)
    base = os.environ.get("XDG_CACHE_HOME") or home or "~/.cache"
    path = Path(os.path.realpath(Path(os.path.expanduser(base), "gpugrad", "native")))
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_safe(path) and os.access(path, os.W_OK):
            return path
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix=_TEMPORARY)))
    if not _is_safe(path):
        path.rmdir()
        raise OSError(f"others may write to {path.parent}, or to a folder around it")
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path, owner):
    if os.getpid() == owner:  # a fork leaves the folder to its parent
        shutil.rmtree(path, ignore_errors=True)


def _is_safe(path):
    """Whether others can change neither a folder nor which folder is at this path."""
    return _is_private(path) and all(_is_private(x, is_around=True) for x in path.parents)


def _is_private(path, is_around=False):
    """Whether only the user and the system's administrator can change what is at ``path``.

    is_around: in a folder around others, such as /tmp, others may add entries of their own.
    """
    if sys.platform == "win32":
        return True  # as the folders of users are
    found = os.stat(path)
    is_shared = is_around and found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.getuid()) and (is_shared or not found.st_mode & 0o022)


class Build:
    """A library that is loaded, is being compiled, or cannot be had.

    error: why it cannot be had; else None.
    """

    def __init__(self, source: str, name: str, is_long: bool):
        self.source, self.name, self._is_long = source, name, is_long
        self._flags = _OPTIMIZED[is_long]
        self.error: str | None = None
        self._library: ctypes.CDLL | None = None
        self._begin()

    @property
    def library(self) -> ctypes.CDLL | None:
        """The library, or None as long as there is none."""
        self._resume()
        return self._library

    @property
    def is_done(self) -> bool:
        """Whether the library is loaded or cannot be had."""
        self._resume()
        return self._done.is_set()

    def wait(self, seconds: float | None = None) -> ctypes.CDLL | None:
        """Return `library` once it `is_done`, or after some seconds."""
        self._resume()
        self._done.wait(seconds)
        return self._library

    def _begin(self):
        self._workshop, self._done = _workshops[self._is_long], Event()
        if command() is None:
            self._end("there is no C compiler")
            return
        try:
            key = sha256(
                repr(self._flags).encode() + _machine() + self.source.encode()
            ).hexdigest()[:32]
            self._prefix = f"{self.name}-{key}-"
            found = [x for x in os.listdir(folder()) if x.startswith(self._prefix)]
            if any(self._load(folder() / x) for x in found):
                self._end()
            else:
                self._workshop.order(self)
        except (OSError, RuntimeError) as error:  # no thread can be started
            self._end(str(error))

    def _resume(self):
        """Begin again in a forked process, which lacks the thread that compiles."""
        if self._workshop not in _workshops and not self._done.is_set():
            self._begin()

    def _end(self, error=None):
        self.error = error
        self._done.set()

    def _load(self, path):
        """Load a file of the cache if it is whole and nobody else could write it."""
        with contextlib.suppress(OSError):
            if _is_private(path) and path.name == self._file_name(path.read_bytes()):
                self._library = ctypes.CDLL(str(path))
                os.utime(path)  # `_tidy` removes those that were not used for long
                return True
        with contextlib.suppress(OSError):
            path.unlink()
        return False

    def _file_name(self, content):
        return f"{self._prefix}{sha256(content).hexdigest()[:32]}{_SUFFIX}"

    def make(self, workshop):
        """Compile the library in a folder of its own, and move it into the cache."""
        error = "its thread has ended"
        try:
            made = workshop.compile(self.source, self._flags)
            path = folder() / self._file_name(made.read_bytes())
            os.chmod(made, 0o700)
            os.replace(made, path)
            self._library = ctypes.CDLL(str(path))
            error = None
            _tidy()
        except (OSError, RuntimeError) as problem:
            error = error and str(problem)
            if error and "CC" in os.environ and not workshop.is_closed:
                _warn(f"the compiler that $CC names cannot compile {self.name!r}: {error}")
        finally:
            shutil.rmtree(workshop.work or "", ignore_errors=True)
            self._end(error)


@cache
def _warn(text):
    with contextlib.suppress(UserWarning):  # where warnings are errors
        warnings.warn(f"gpugrad: {text}\nCalls work without it, more slowly.", stacklevel=2)


def _tidy():
    """Remove the libraries unused for longest, and what interpreters that were killed have left."""
    now = time.time()
    files = []
    for entry in os.scandir(folder()):
        with contextlib.suppress(OSError):
            found = entry.stat()
            if not entry.name.startswith("new-"):
                files.append((found.st_mtime, found.st_size, entry.path))
            elif now - found.st_mtime > _FORGOTTEN:
                shutil.rmtree(entry.path, ignore_errors=True)
    total = 0
    for number, (_, size, path) in enumerate(sorted(files, reverse=True)):
        total += size
        if number >= _MOST_FILES or total > _MOST_BYTES:
            with contextlib.suppress(OSError):
                os.unlink(path)


class _Workshop:
    """Where this process compiles one library after the other."""

    def __init__(self):
        self.lock = RLock()  # a signal handler may build something too
        self.busy = Lock()  # held while a library is compiled
        self.orders: deque[Build] = deque()
        self.thread: Thread | None = None  # which compiles what is ordered, and ends
        self.is_closed = False
        self.process = self.work = None

    def order(self, build):
        """Have a library compiled after those before; RuntimeError if no thread can be started."""
        with self.lock:
            if self.thread is None or not self.thread.is_alive():
                thread = Thread(target=self._work, name="gpugrad compiler", daemon=True)
                thread.start()  # it waits for the lock
                self.thread = thread
            self.orders.append(build)

    def _work(self):
        while True:
            with self.lock:
                if not self.orders:
                    self.thread = None
                    return
                build = self.orders.popleft()
            with self.busy:  # a signal handler may have started a second thread
                build.make(self)

    def compile(self, text, flags):
        """Run the compiler in a new folder, without Ctrl-C; returns the file that it has made."""
        options = {} if sys.platform == "win32" else {"start_new_session": True}
        with self.lock:
            if self.is_closed:
                raise RuntimeError("the interpreter ends")
            self.work = Path(tempfile.mkdtemp(prefix="new-", dir=folder()))
            source, made = self.work / "source.c", self.work / "made"
            source.write_text(text)
            words = [*(command() or ()), *flags, *FLAGS, "-o", str(made), str(source), "-lm"]
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(self.work)}, **options,
            )  # fmt: skip
        _, problem = self.process.communicate()
        code, self.process = self.process.returncode, None
        if code:
            problem = problem.decode(errors="replace").strip()[:500]
            raise RuntimeError(f"{shlex.join(words[:3])}... ended with {code}: {problem}")
        return made

    def close(self):
        """Stop compiling, and remove unfinished files."""
        with self.lock:
            self.is_closed = True
        process = self.process
        if process is not None and process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)  # the programs that it runs, too
                process.wait(1)
        shutil.rmtree(self.work or "", ignore_errors=True)


_builds: dict[tuple[str, str], Build] = {}
_workshops = _Workshop(), _Workshop()  # the second for what takes longer


def build(source: str, name: str, is_long: bool = False) -> Build:
    """Load the library of C source text from the cache, or have it compiled in the background.

    ``name`` begins the name of its file. Equal texts share one `Build`.
    is_long: whether it is compiled beside others, and with flags that take less time.
    """
    with _workshops[0].lock:
        if (source, name) not in _builds:
            _builds[source, name] = Build(source, name, is_long)
        return _builds[source, name]


def report():
    """Pairs of texts about the compiler, for ``python -m gpugrad``."""
    if (words := command()) is not None:
        yield "C compiler", shlex.join(words)
        with contextlib.suppress(OSError):  # they are not made
            is_kept = not folder().name.startswith(_TEMPORARY)
            why = "" if is_kept else ", removed at the end: no cache folder can be used"
            yield "C libraries", f"{folder()}{why}"
    elif _is_off():
        yield "C compiler", f"is not used: $GPUGRAD_NATIVE is {os.environ['GPUGRAD_NATIVE']}"
    else:
        yield "C compiler", "is not found; `pip install ziglang` brings one"


def _after_fork():
    global _workshops
    _workshops = _Workshop(), _Workshop()


atexit.register(lambda: [workshop.close() for workshop in _workshops])
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
