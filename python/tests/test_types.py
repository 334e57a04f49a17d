"""Type stubs name what there is: the extension's names and their parameters, and the package's."""

import ast
import inspect
import pathlib

import clump
import pytest
from clump import _native

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
    del methods["__init__"]
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
