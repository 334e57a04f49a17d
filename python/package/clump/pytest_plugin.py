"""Tests that run as jobs: a plugin of pytest.

    pytest_plugins = "clump.pytest_plugin"      # in conftest.py, or: pytest -p clump.pytest_plugin

    @pytest.mark.clump(n=4, nodes=2)
    def test_sum():
        w = clump.world()
        assert w.allreduce(w.rank) == 6

The test passes if it passes at all ranks. The failure of the first rank that fails is shown; of a
test that does not end within `timeout` seconds (60), the stacks of all ranks are.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import pytest

#: Set in ranks, which execute the test itself: the time at which the job is ended.
_VARIABLE = "CLUMP_PYTEST_UNTIL"


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "clump(n=2, nodes=1, timeout=60): run the test as a job of so many ranks"
    )
    if _VARIABLE in os.environ:
        import faulthandler

        # Before the launcher ends the job, which then reports what each rank waits for.
        seconds = max(float(os.environ[_VARIABLE]) - time.time() - 1, 0.5)
        faulthandler.dump_traceback_later(seconds, file=os.fdopen(os.dup(2), "w"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a marked test as a job, in place of calling its function here."""
    mark = pyfuncitem.get_closest_marker("clump")
    if mark is None or _VARIABLE in os.environ:
        return None
    failure = _failure(pyfuncitem, **_options(*mark.args, **mark.kwargs))
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return True


def _options(n=2, nodes=1, timeout=60):
    return {"n": n, "nodes": nodes, "timeout": timeout}


def _failure(item, n, nodes, timeout):
    """Executes a test as a job; returns the failure of the rank that failed first."""
    name = f"{item.path}::{'::'.join(item.nodeid.split('::')[1:])}"
    with tempfile.TemporaryDirectory(prefix="clump-pytest-") as folder:
        command = [sys.executable, "-m", "clump", "run", "-n", str(n), "--nodes", str(nodes)]
        command += ["--time-limit", str(timeout), "--output", folder, "-m", "pytest", "-q"]
        command += ["-p", "clump.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
        command += ["--rootdir", str(item.config.rootpath), name]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=item.config.invocation_params.dir,
            env={**os.environ, _VARIABLE: str(time.time() + timeout), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        if done.returncode == 0:
            return None
        folder = pathlib.Path(folder)
        if done.returncode == 124:
            stacks = [
                f"rank {rank}:\n{_text(folder / f'rank-{rank}.err')}" for rank in range(n)
            ]
            return "\n".join([f"the job has not ended in {timeout} s", done.stderr, *stacks])
        first = re.search(r"clump: rank (\d+) of", done.stderr)
        if first is None:
            return f"the job failed:\n{done.stdout}{done.stderr}"
        rank = int(first.group(1))
        shown = _text(folder / f"rank-{rank}.out") + _text(folder / f"rank-{rank}.err")
        return f"rank {rank} of {n} failed first:\n{shown}\n{done.stderr}"


def _text(path):
    return path.read_text(errors="replace") if path.exists() else ""
