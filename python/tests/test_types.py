"""Type stubs name what there is: the extension's names and their parameters, and the package's."""

import ast
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import clump
import pytest
from clump import _native

needs_mypy = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="SKIPPED: no mypy here (pip install mypy)"
)
#: Where stubs differ from modules: programs set the first; the second is of no use to programs.
ALLOWED = "clump.pickle\nclump._native.__all__\n"

FOLDER = pathlib.Path(clump.__file__).parent


def stub(name):
    return ast.parse((FOLDER / name).read_text())


def parameters(function):
    args = function.args
    return [arg.arg for arg in args.posonlyargs + args.args + args.kwonlyargs if arg.arg != "self"]


def functions(body):
    return {item.name: item for item in body if isinstance(item, ast.FunctionDef)}


def test_the_package_is_typed():
    assert (FOLDER / "py.typed").exists()


def test_functions_of_the_extension_have_the_parameters_of_the_stub():
    described = functions(stub("_native.pyi").body)
    actual = {name for name in dir(_native) if callable(getattr(_native, name)) and name[0].islower()}
    assert set(described) == actual
    for name, function in described.items():
        signature = inspect.signature(getattr(_native, name))
        assert list(signature.parameters) == parameters(function), name


@pytest.mark.parametrize("name", ["NativeArray", "NativeTeam", "NativeLock", "NativeHeapLocks"])
def test_methods_of_the_extension_have_the_parameters_of_the_stub(name):
    (described,) = (
        item
        for item in stub("_native.pyi").body
        if isinstance(item, ast.ClassDef) and item.name == name
    )
    methods = functions(described.body)
    methods.pop("__new__", None)
    fields = {item.target.id for item in described.body if isinstance(item, ast.AnnAssign)}
    actual = {name for name in vars(getattr(_native, name)) if not name.startswith("_")}
    assert set(methods) | fields == actual
    for method, function in methods.items():
        signature = inspect.signature(getattr(getattr(_native, name), method))
        found = [parameter for parameter in signature.parameters if parameter != "self"]
        assert found == parameters(function), method


def test_public_names_are_in_the_stub():
    named = set()
    for item in stub("__init__.pyi").body:
        if isinstance(item, (ast.ImportFrom, ast.Import)):
            named |= {alias.asname or alias.name for alias in item.names}
        elif isinstance(item, (ast.FunctionDef, ast.ClassDef)):
            named.add(item.name)
        elif isinstance(item, ast.Assign):
            named |= {target.id for target in item.targets}
        elif isinstance(item, ast.AnnAssign):
            named.add(item.target.id)
    assert set(clump.__all__) <= named
    # Of its own `typing`, a stub has names that the module has not; a program sets `pickle`.
    missing = {name for name in named - {"ModuleType", "Any", "pickle"} if not hasattr(clump, name)}
    assert not missing


def checked(*words, folder):
    """Runs a program of mypy, which finds nothing beside the installed packages."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "MYPY_CACHE_DIR": str(folder / "cache")},
    )


@needs_mypy
def test_stubs_are_those_of_the_modules(tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text(ALLOWED)
    done = checked("mypy.stubtest", "clump", "--concise", "--allowlist", allowed, folder=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@needs_mypy
def test_a_program_with_types_is_checked_strictly(tmp_path):
    program = pathlib.Path(__file__).parent / "typed_program.py"
    done = checked("mypy", "--strict", program, folder=tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_program_with_types_runs(run):
    pytest.importorskip("typing_extensions", reason="SKIPPED: no typing_extensions here (of mypy)")
    program = pathlib.Path(__file__).parent / "typed_program.py"
    job = run(str(program), n=2)
    assert job.out.count("ok") == 2, job
