"""The compiler of native code: its cache, and what goes wrong."""

import os
import stat
import textwrap
import time

import native
import pytest

from gpugrad.backends.native import base, compiler

HEAD = """
import os, sys, time
from gpugrad.backends.native import base, compiler
SOURCE = "int gg_answer(void) { return 42; }"
"""


def run(code, folder, **variables):
    """Run a program with a cache in ``folder``, and return what it prints."""
    variables = {"XDG_CACHE_HOME": str(folder), "PYTHONWARNINGS": "default", **variables}
    return native.run(HEAD + textwrap.dedent(code), **variables)


BUILD = """
build = compiler.build(SOURCE, "answer")
print("at once" if build.library else "later")
library = build.wait(30)
print(library and library.gg_answer(), build.error)
"""


MADE = "later\n42 None\n"


@pytest.fixture
def cache(tmp_path):
    if compiler.command() is None or not hasattr(os, "fork"):
        pytest.skip("needs a C compiler and POSIX")
    return tmp_path


def libraries(folder):
    return sorted((folder / "gpugrad" / "native").iterdir())


def test_a_second_process_loads_from_the_cache(cache):
    assert run(BUILD, cache) == MADE
    (library,) = libraries(cache)
    assert not library.stat().st_mode & 0o077
    code = """
    start = time.perf_counter()
    build = compiler.build(SOURCE, "answer")
    print(build.library.gg_answer(), time.perf_counter() - start)
    """
    found = [run(code, cache).split() for _ in range(3)]
    assert {answer for answer, _ in found} == {"42"}
    assert min(float(seconds) for _, seconds in found) < 0.02
    assert libraries(cache) == [library]


def test_a_damaged_entry_is_made_anew(cache):
    run(BUILD, cache)
    (library,) = libraries(cache)
    content = library.read_bytes()
    for damage in (b"", content[:5000], content[:-1] + bytes([content[-1] ^ 1]), None):
        library.chmod(0o722) if damage is None else library.write_bytes(damage)
        assert run(BUILD, cache) == MADE
        assert [x.read_bytes() for x in libraries(cache)] == [content]
        assert not library.stat().st_mode & 0o022
    assert run(BUILD, cache) == "at once\n42 None\n"


def test_a_folder_that_others_can_write_is_refused(cache):
    run(BUILD, cache)
    entry, native = libraries(cache), cache / "gpugrad/native"
    own = cache / "gpugrad"
    for folder, shared in (cache, 0o777), (own, 0o777), (native, 0o777), (native, 0o1777):
        mode = folder.stat().st_mode
        folder.chmod(shared)
        text = run(BUILD + "print(compiler.folder(), *os.listdir(compiler.folder()))", cache)
        folder.chmod(mode)
        first, second, third = text.splitlines()
        found, *names = third.split()
        assert (first, second, len(names)) == ("later", "42 None", 1)
        assert not found.startswith(str(cache))
        assert not os.path.exists(found)  # it ends with the interpreter
        assert libraries(cache) == entry


def test_a_folder_in_whose_place_others_can_put_one_is_refused(cache):
    shared, code = cache / "shared", BUILD + "print([x[1] for x in compiler.report()][1:])"
    (shared / "gpugrad").mkdir(parents=True)
    shared.chmod(0o777)
    (cache / "gpugrad").symlink_to(shared / "gpugrad")
    first, second, found = run(code, cache).splitlines()
    assert (first, second) == ("later", "42 None")
    assert str(cache) not in found
    first, second, found = run(code, cache, TMPDIR=str(shared)).splitlines()
    assert second.startswith("None others may write to")
    assert (found, [*shared.iterdir()]) == ("[]", [shared / "gpugrad"])


def test_a_cache_that_cannot_be_made(cache):
    (cache / "gpugrad").write_text("a file")
    assert run(BUILD, cache) == MADE
    report = run("print(dict(compiler.report())['C libraries'])", cache)
    assert report.strip().endswith("removed at the end: no cache folder can be used")


@pytest.mark.parametrize("variables", [{"PATH": ""}, {"GPUGRAD_NATIVE": "off"}])
def test_without_a_compiler(tmp_path, variables):
    without = "sys.modules['ziglang'] = None; compiler.find_spec = lambda name: None"
    code = without + BUILD + "print(*compiler.report())"
    later, answer, report = run(code, tmp_path, **variables).splitlines()
    assert (later, answer) == ("later", "None there is no C compiler")
    assert ("pip install ziglang" if "PATH" in variables else "$GPUGRAD_NATIVE is off") in report
    assert not list(tmp_path.iterdir())


def test_a_compiler_that_fails(cache):
    text = run(BUILD + BUILD, cache, CC="false")
    assert text.startswith("later\nNone ")
    assert "ended with 1" in text
    assert text.count("UserWarning: gpugrad: the compiler that $CC names") == 1
    assert "None" in run(BUILD, cache, CC="false", PYTHONWARNINGS="error")
    text = run('SOURCE = "int gg_answer(void) { return }"' + BUILD, cache)
    assert text.startswith("later\nNone ")
    assert "error" in text
    assert "Warning" not in text
    assert libraries(cache) == []


def test_a_fork_goes_on_by_itself(cache):
    code = """
    build = compiler.build(SOURCE, "answer")
    child = os.fork()
    library = build.wait(30)
    answer = library and library.gg_answer()
    if not child:
        os._exit(answer)
    print(answer, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert (run(code, cache).split("\n")[0], len(libraries(cache))) == ("42 42", 1)


def test_one_thread_compiles_many_libraries(cache):
    code = """
    import threading
    builds = [compiler.build(SOURCE + f"// {i}", "answer") for i in range(8)]
    print(sum(t.name == "gpugrad compiler" for t in threading.enumerate()))
    print([build.wait(30).gg_answer() for build in builds])
    time.sleep(0.1)
    print(compiler.build(SOURCE, "answer").wait(30).gg_answer())  # after the thread has ended
    """
    assert (run(code, cache), len(libraries(cache))) == (f"1\n{[42] * 8}\n42\n", 9)


def test_an_interpreter_that_ends_leaves_no_half_files(cache):
    slow = cache / "slow"  # writes, and would write again long after
    slow.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho half > "$2"; sleep 60')
    slow.chmod(stat.S_IRWXU)
    code = """
    build = compiler.build(SOURCE, "answer")
    while not [x for x in compiler.folder().glob("*/made") if x.read_text()]:
        time.sleep(0.01)
    """
    start = time.monotonic()
    run(code, cache, CC=str(slow))
    assert time.monotonic() - start < 30
    assert libraries(cache) == []
    for _ in range(3):  # while the machine's compiler starts
        run("compiler.build(SOURCE, 'answer')", cache)
        assert not [x for x in libraries(cache) if x.name.startswith("new-")]


@pytest.mark.skipif(not base.is_expected(), reason="there are no kernels")
def test_compiled_functions_have_kernels_with_the_library_for_windows(cache):
    """It has neither threads nor products of matrices."""
    code = """
    import gpugrad
    from gpugrad.backends.native import calls
    calls._HAS_PRODUCTS = False
    x = gpugrad.ones((20, 20))
    f = gpugrad.compile(lambda x: gpugrad.exp(x @ x - 20) * 2 + 1)
    for _ in range(4):
        f(x)
    program = f.program(x)
    print(len(program.kernels), f(x)[0, 0].item())
    """
    flags = f"{compiler.command()[0]} -D_WIN32"
    assert run(code, cache, CC=flags, PYTHONWARNINGS="error") == "1 3.0\n"


def test_the_cache_is_bounded(cache):
    run(BUILD, cache)
    (library,) = libraries(cache)
    for i in range(5):
        old = library.with_name(f"old-{i}")
        old.write_bytes(bytes(1000))
        os.utime(old, (i, i))
    left = library.with_name("new-left")
    left.mkdir()
    os.utime(left, (0, 0))
    assert run("compiler._MOST_FILES = 3; SOURCE += '/* */'" + BUILD, cache) == MADE
    names = [x.name for x in libraries(cache)]
    assert len(names) == 3
    assert {library.name, "old-4"} < {*names}


@pytest.mark.slow
def test_the_compiler_of_the_extra(cache):
    """That of ziglang, on a machine without another; what it makes first takes it some seconds."""
    pytest.importorskip("ziglang")
    code = BUILD.replace("30", "250") + "print(*compiler.report())"
    text = run(code, cache, PATH="/nonexistent")
    assert text.startswith(MADE)
    assert "-m ziglang cc" in text
    assert "-m ziglang cc" in run(code, cache, PATH="/nonexistent").split("at once\n42 None")[1]
