"""Raw kernels: CUDA C++ is compiled for the CPU, where the threads of a block run in turn.

Mistakes that a GPU would silently accept, such as an argument whose size differs from its
parameter's, are errors here.
"""

import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from ._array import MemoryPointer, ndarray, on_current
from ._capture import current, do
from ._traffic import Touched, is_recorded, launched
from .cuda.function import CPointer
from .cuda.runtime import getDevice, getDeviceProperties

computes = True  # else kernels are launched, but not run: only counted
EMULATOR = Path(__file__).with_name("_emulator.h")
FLAGS = [
    *("-O1", "-fPIC", "-fno-semantic-interposition", "-fno-gnu-unique", "-U_FORTIFY_SOURCE", "-w"),
    *("-fsanitize=kernel-address", "-fsanitize=alignment,bounds,integer-divide-by-zero"),
    *("--param", "asan-instrumentation-with-call-threshold=0"),
    *("--param", "asan-stack=0", "--param", "asan-globals=0"),
]
KINDS = {"float": "f", "int": "iu", "bool": "b"}
KERNEL = re.compile(
    r"__global__\s+void\s+(?:__launch_bounds__\s*\(((?:[^,()]|\([^()]*\))*)[^)]*\)\s*)?(\w+)\s*\("
)


class RawKernel:
    def __init__(
        self, code, name, options=(), backend="nvrtc", *, translate_cucomplex=False,
        enable_cooperative_groups=False, jitify=None,
    ):  # fmt: skip
        if not isinstance(options, tuple):
            raise TypeError(f"options must be a tuple, not {type(options)}")
        self.code, self.options = code, options
        self.name = self.__name__ = name
        self.max_dynamic_shared_size_bytes = 48 << 10

    @functools.cached_property
    def kernel(self):
        return Kernel(compiled(self.code, self.options), self.name)

    def __call__(self, grid, block, args, *, shared_mem=0):
        room = getDeviceProperties(getDevice())["sharedMemPerBlockOptin"]
        allowed = min(self.max_dynamic_shared_size_bytes, room)
        if shared_mem > allowed:
            raise ValueError(f"{self.name}: {shared_mem} bytes of shared memory, of {allowed}")
        self.kernel.launch(grid, block, args)


class RawModule:
    def __init__(
        self, *, code=None, path=None, options=(), backend="nvrtc", translate_cucomplex=False,
        enable_cooperative_groups=False, name_expressions=None, jitify=None,
    ):  # fmt: skip
        self.code, self.options = code, options

    def get_function(self, name):
        kernel = RawKernel(self.code, name, self.options)
        kernel.kernel  # compiled now  # noqa: B018
        return kernel


class Kernel:
    """A kernel in a compiled library."""

    def __init__(self, library, name):
        text = ctypes.create_string_buffer(10_000)
        getattr(library, f"{name}__describe")(text)
        self.name = name
        self.parameters = [Parameter(line) for line in text.value.decode().splitlines()]
        self.most = ctypes.c_int.in_dll(library, f"{name}__most").value
        self.run = getattr(library, f"{name}__launch")
        self.run.restype = ctypes.c_char_p
        self.accesses = getattr(library, f"{name}__accesses")
        self.accesses.restype = ctypes.c_ulonglong

    def launch(self, grid, block, args):
        grid, block = ([max(1, n) for n in (tuple(sizes) + (1, 1))[:3]] for sizes in (grid, block))
        if np.prod(block) > self.most or max(grid[1:]) > 65535 or grid[0] >= 1 << 31:
            sizes = f"a grid {grid} of {block}, {self.most} threads"
            raise ValueError(f"{self.name}: not every GPU takes {sizes}")
        if len(args) != len(self.parameters):
            raise TypeError(f"{self.name} has {len(self.parameters)} parameters, not {len(args)}")
        on_current(args)
        values = []
        for i, (parameter, given) in enumerate(zip(self.parameters, args, strict=True)):
            try:
                values.append(parameter.value(given))
            except TypeError as error:
                raise TypeError(f"{self.name}: argument {i}: {error}") from None
        if current() is not None:  # they are copied now
            values = [value.copy() for value in values]
        pointers = [value.__array_interface__["data"][0] for value in values]
        arrays = self.arrays(args)
        # Of each array, where it starts and ends, and marks for what is read and written of it.
        bounds, marks = [], []
        for array in arrays:
            start, stop = np.lib.array_utils.byte_bounds(array)
            marks.append(np.zeros(stop - start if is_recorded() else 0, np.uint8))
            at = marks[-1].__array_interface__["data"][0] if is_recorded() else None
            bounds += [start, stop, at]

        def work(kept=(values, arrays, marks)):
            sizes = [(ctypes.c_uint * 3)(*numbers) for numbers in (grid, block)]
            places = [(ctypes.c_void_p * len(x))(*x) if x else None for x in (pointers, bounds)]
            if error := self.run(*sizes, *places, len(arrays)):
                raise RuntimeError(f"{self.name}: {error.decode()}")

        if computes:
            do(work)
        if is_recorded():
            pairs = [*zip(bounds[::3], marks, strict=True)]
            touched = [[Touched(start, m & bit) for start, m in pairs] for bit in (1, 2)]
            moved = touched if arrays else (None, None)
            accesses = self.accesses() if computes and current() is None else None
            launched(self.name, *moved, int(np.prod(grid)), accesses)

    def arrays(self, args):
        """Return the arrays that the kernel may access; none if arguments may hold addresses."""
        given = zip(self.parameters, args, strict=True)
        if any(parameter.may_hold_addresses(x) for parameter, x in given):
            return []
        return [x._values for x in args if isinstance(x, ndarray)]


class Parameter:
    """A parameter of a kernel; a pointer has the kind, size and name of its target."""

    def __init__(self, text):
        self.is_pointer = text.startswith("p ")
        kind, size, name = text.removeprefix("p ").split(" ", 2)
        self.kind, self.size, self.name = kind, int(size), name.rpartition("::")[2]

    def __str__(self):
        return self.name + " *" * self.is_pointer

    def value(self, given):
        """Return the bytes to pass, as an array; raise TypeError if the types differ."""
        if isinstance(given, CPointer):
            return np.frombuffer((ctypes.c_byte * self.size).from_address(given._address), np.uint8)
        if self.is_pointer:
            return np.array(self.address(given), np.uint64)
        if isinstance(given, (bool, int, float, complex)):
            given = np.array(given, type(given) if type(given) is not int else np.int64)
        if isinstance(given, np.ndarray) and given.size != 1:
            raise TypeError(f"a numpy.ndarray of shape {given.shape} cannot be passed by value")
        if not isinstance(given, (np.ndarray, np.generic)):
            raise TypeError(f"{type(given).__name__} is given for {self}")
        if given.dtype.kind not in KINDS.get(self.kind, "Vc") or given.dtype.itemsize != self.size:
            raise TypeError(f"{given.dtype} is given for {self}, {self.size} bytes")
        return np.asarray(given)

    def address(self, given):
        if given is None:
            return 0
        if isinstance(given, MemoryPointer):
            return given.ptr
        if isinstance(given, (int, np.uint64, np.int64)) and not isinstance(given, bool):
            return given
        if not isinstance(given, ndarray):
            raise TypeError(f"{type(given).__name__} is given for the pointer {self}")
        if not self.can_point_to(given.dtype):
            raise TypeError(f"an array of {given.dtype} is given for {self}")
        return given.data.ptr

    def may_hold_addresses(self, given):
        if not self.is_pointer:
            return self.kind == "struct" and _may_be_addresses(self.value(given))
        return self.name.endswith("*") or not (given is None or isinstance(given, ndarray))

    def can_point_to(self, dtype):
        if self.name in ("void", "unsigned char", "char"):  # bytes of anything
            return True
        if self.name in ("half", "bf16"):
            return dtype.name == {"half": "float16", "bf16": "bfloat16"}[self.name]
        if self.kind == "struct":  # with several elements, or the target of a pointer
            return self.size % dtype.itemsize == 0
        if self.name.endswith("*"):
            return dtype.kind in "iu" and dtype.itemsize == self.size
        return dtype.kind in KINDS[self.kind] and dtype.itemsize == self.size


def _may_be_addresses(struct):
    """Whether some numbers in a struct are so large that they may be addresses."""
    if struct.nbytes % 8:
        return True
    return bool((abs(np.frombuffer(struct.tobytes(), np.int64)) >> 40).any())


@functools.cache
def compiled(code, options):
    """Compile the kernels in a source into a library, cached on disk for other processes."""
    # Without launch bounds a thread may use 255 of the block's 65536 registers.
    entries = [
        f'extern "C" const int {name}__most = {most or 256};\n'
        f'extern "C" const char* {name}__launch(const unsigned* g, const unsigned* b, void** args,'
        " const emulator::Array* arrays, int count)"
        f" {{ return emulator::launch({name}, g, b, args, arrays, count); }}\n"
        f'extern "C" unsigned long long {name}__accesses() {{ return emulator::accesses; }}\n'
        f'extern "C" void {name}__describe(char* out) {{ emulator::describe({name}, out); }}'
        for most, name in KERNEL.findall(code)
    ]
    # In an unnamed namespace, the shared variables of all functions can be in one section.
    before = f'#include "{EMULATOR.name}"', "namespace {", '#line 1 "kernels"'
    text, compiler = "\n".join([*before, code, "}", *entries, ""]), shutil.which("g++")
    if compiler is None:
        raise RuntimeError("kernels run on the CPU need g++, which is not found")
    defines = [option for option in options if option.startswith(("-D", "-U", "-std="))]
    key = "\0".join([text, EMULATOR.read_text(), compiler, *FLAGS, *defines])
    folder = Path(tempfile.gettempdir()) / f"gpugrad-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            given = *defines, f"-I{EMULATOR.parent}"
            compiling = [compiler, *FLAGS, *given, "-c", "-o", "kernels.o", "-x", "c++", "-"]
            done = subprocess.run(compiling, cwd=own, input=text, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"the kernels do not compile:\n{done.stderr}")
            # Link separately, and so without the sanitizers' own library.
            linking = [compiler, "-shared", "-Wl,-Bsymbolic", "-o", "kernels.so", "kernels.o"]
            subprocess.run(linking, cwd=own, check=True)
            Path(own, "kernels.so").replace(target)  # atomic, in case another process does the same
    return ctypes.PyDLL(str(target))
