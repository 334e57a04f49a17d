"""The plugin of pytest, executed as its users do."""

import subprocess
import sys

import pytest

TESTS = """
import clump, pytest
@pytest.mark.clump(n=4, nodes=2)
def test_sum():
    w = clump.world()
    assert w.allreduce(w.rank) == 6
@pytest.mark.clump(n=3)
@pytest.mark.parametrize('where', [1, 2])
def test_fails(where):
    w = clump.world()
    assert w.rank != where, 'the wrong rank'
    w.recv(where)
@pytest.mark.clump(timeout=6)
def test_hangs():
    clump.world().recv()
def test_plain():
    assert True
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "conftest.py").write_text("pytest_plugins = 'clump.pytest_plugin'\n")
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120).stdout


def test_marked_tests_run_at_all_ranks(report):
    assert "test_sum PASSED" in report and "test_plain PASSED" in report, report


def test_the_first_failing_rank_is_shown(report):
    for where in (1, 2):
        assert f"test_fails[{where}] FAILED" in report, report
        assert f"rank {where} of 3 failed first" in report and "the wrong rank" in report, report


def test_the_stacks_of_ranks_that_hang_are_shown(report):
    assert "test_hangs FAILED" in report and "has not ended in 6 s" in report, report
    for rank in (0, 1):
        stacks = report.split(f"rank {rank}:\n")[-1]
        assert "in test_hangs" in stacks and "in recv" in stacks, report
