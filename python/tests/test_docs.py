"""Every block of Python in the manual, and every example, is executed."""

import ast
import inspect
import pathlib
import re
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).parents[2]
MANUAL = (TREE / "docs" / "python.md").read_text()
TOUR = (TREE / "docs" / "tour.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", MANUAL + TOUR, re.M | re.S)
EXAMPLES = sorted((TREE / "python" / "examples").glob("*.py"))




def examples_of_docstrings():
    """Returns the indented lines of each docstring of the package that has some, by its name."""
    found = {}
    for path in sorted((TREE / "python" / "package" / "clump").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                lines = inspect.cleandoc(ast.get_docstring(node) or "").splitlines()
                code = [line[4:] for line in lines if line.startswith("    ")]
                if code:
                    found[f"{path.stem}.{getattr(node, 'name', 'module')}"] = "\n".join(code)
    # The suite of the plugin has its example.
    del found["pytest_plugin.module"]
    return found


DOCSTRINGS = examples_of_docstrings()
#: What the examples of docstrings take for granted.
GIVEN = """
import clump, numpy as np
w = clump.world()
t = table = clump.zeros(1 << 20, 'i8')
keys = np.arange(10)
w.barrier()
"""
CLIENT = "import clump\ndef f(x): return x * x\n"


def test_the_manual_has_blocks():
    assert len(BLOCKS) >= 7 and "hist.py" in MANUAL and len(DOCSTRINGS) >= 8


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_examples_of_docstrings_run(run, tmp_path, name):
    if name in ("_tasks.Executor", "_cluster.Cluster"):
        script = tmp_path / "block.py"
        script.write_text(CLIENT + DOCSTRINGS[name])
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout and not done.stderr, done
    else:
        job = run(f"{GIVEN}\n{DOCSTRINGS[name]}\nw.barrier()\n", n=2, env={"PYTHONWARNINGS": "ignore"})
        assert not job.err, job


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_blocks_of_the_manual_run(run, tmp_path, block, nodes):
    if "Executor" in block or "Cluster" in block:
        script = tmp_path / "block.py"
        script.write_text(block)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout and not done.stderr, done
    else:
        job = run("\n" + block, n=4, nodes=nodes)
        assert not job.err, job


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_short_and_right(run, tmp_path, example):
    text = example.read_text()
    assert len(text.splitlines()) < 60
    if "\nw = clump.world()" in text:
        job = run(text, n=4, nodes=2)
        assert "right" in job.out and not job.err, job
    else:
        done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "right" in done.stdout and not done.stderr, done
