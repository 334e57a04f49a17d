"""Every block of Python in the manual, and every example, is executed."""

import pathlib
import re
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).parents[2]
MANUAL = (TREE / "docs" / "python.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", MANUAL, re.M | re.S)
EXAMPLES = sorted((TREE / "python" / "examples").glob("*.py"))


def test_the_manual_has_blocks():
    assert len(BLOCKS) >= 6 and "hist.py" in MANUAL


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
