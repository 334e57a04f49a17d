"""Programs of tests as jobs: started by the installed package's own launcher."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

# A shell that starts the suite in the background has it ignore interrupts, and all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROGRAMS = pathlib.Path(__file__).parent / "programs"
#: Layouts that programs run in: ranks, nodes.
LAYOUTS = [(1, 1), (2, 1), (4, 2), (5, 3)]


class Ended:
    """A job that has ended."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __repr__(self):
        return f"code {self.code} after {self.seconds:.2f} s\n{self.out}\n{self.err}"


def start(script, *words, n=2, nodes=1, env=None, options=(), **keywords):
    """Starts a script as a job."""
    command = [sys.executable, "-m", "clump", "run", "-n", str(n), "--nodes", str(nodes)]
    return subprocess.Popen(
        [*command, *options, str(script), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **(env or {})},
        start_new_session=True,
        **keywords,
    )


def ended(job, seconds=60):
    """Waits for a job; one that does not end is a failure, with what it printed."""
    began = time.monotonic()
    try:
        out, err = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        job.terminate()
        out, err = job.communicate(timeout=20)
        pytest.fail(f"the job has not ended in {seconds} s:\n{out}\n{err}")
    return Ended(job.returncode, out, err, time.monotonic() - began)


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs a program, by its name or text, as a job."""

    def run(program, *words, seconds=60, good=True, **how):
        script = PROGRAMS / program
        if "\n" in program:
            script = tmp_path / "program.py"
            script.write_text(program)
        job = ended(start(script, *words, cwd=tmp_path, **how), seconds)
        if good:
            assert job.code == 0, job
        return job

    return run
