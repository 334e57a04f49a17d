"""Prints the reference of the package as a page of Markdown: public names, their signatures and
docstrings, read from the sources without importing them."""

import ast
import inspect
import pathlib

PACKAGE = pathlib.Path(__file__).resolve().parent / "package" / "clump"
#: Modules with a section of their own.
MODULES = ("svm", "pytest_plugin")


def module(name):
    """Returns the syntax tree of a module of the package."""
    return ast.parse((PACKAGE / f"{name}.py").read_text())


def public():
    """Returns the modules of public names, as the type stub imports them."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    names = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            names.update((alias.name, node.module) for alias in node.names)
    return names


def signature(node, skip=0):
    """Returns the parameters of a function, without the first `skip`."""
    arguments = node.args
    arguments.args = arguments.args[skip:]
    return f"({ast.unparse(arguments)})"


def document(node):
    """Returns the docstring of a node, with examples as code."""
    lines, code = [], False
    for line in inspect.cleandoc(ast.get_docstring(node) or "").splitlines():
        indented = line.startswith("    ")
        if indented != code and line:
            lines.append("```python" if indented else "```")
            code = indented
        lines.append(line[4:] if code else line)
    if code:
        lines.append("```")
    return "\n".join(lines)


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def methods(node):
    """Yields the public members of a class that have a docstring, and its constructor."""
    for item in node.body:
        if not isinstance(item, FUNCTIONS) or not ast.get_docstring(item):
            continue
        if item.name == "__init__" or not item.name.startswith("_"):
            yield item


def entry(name, node):
    """Yields the lines of one public name."""
    if isinstance(node, ast.ClassDef):
        made = [item for item in node.body if getattr(item, "name", "") == "__init__"]
        yield f"### `{name}{signature(made[0], 1) if made else ''}`\n"
        yield document(node) + "\n"
        for item in methods(node):
            is_value = any(getattr(mark, "id", "") == "property" for mark in item.decorator_list)
            is_static = any(getattr(mark, "id", "") == "staticmethod" for mark in item.decorator_list)
            words = "" if is_value else signature(item, 0 if is_static else 1)
            if item.name != "__init__":
                yield f"**`{name}.{item.name}{words}`**\n"
            yield document(item) + "\n"
    else:
        yield f"### `{name}{signature(node)}`\n"
        yield document(node) + "\n"


def section(name, wanted):
    """Yields the lines of a module's public names."""
    for node in module(name).body:
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and wanted(node.name):
            if ast.get_docstring(node):
                yield from entry(node.name, node)


def main():
    """Prints the page."""
    names = public()
    print("# Reference of the Python package\n\n## clump\n")
    print(document(module("__init__")) + "\n")
    print("\n".join(section("__init__", lambda name: not name.startswith("_"))))
    for place in dict.fromkeys(names.values()):
        print("\n".join(section(place, lambda name: names.get(name) == place)))
    for name in MODULES:
        print(f"## clump.{name}\n\n{document(module(name))}\n")
        print("\n".join(section(name, lambda name: not name.startswith("_"))))


if __name__ == "__main__":
    main()
