"""Programs on several machines, by ssh: the wheel is installed on each of them, and the job is
started on one."""

import os
import pathlib
import shlex
import subprocess
import sys

import pytest

#: The program that sets machines up, and the wheel that is tested.
BED, WHEEL = os.environ.get("CLUMP_TEST_MACHINES"), os.environ.get("CLUMP_TEST_WHEEL")
#: The environment on each machine, whose /tmp is its own.
ENVIRONMENT = "/tmp/environment"

PROGRAM = """
import socket, sys
import clump
import numpy as np
from clump import svm

assert clump.__file__.startswith('/tmp/environment/'), clump.__file__
w, host = clump.world(), socket.gethostname()
assert w.allgather(host) == ['m1', 'm1', 'm2', 'm2']
t = clump.zeros(1000, 'i8')
t.add(np.arange(1000), np.full(1000, w.rank + 1))
w.barrier()
assert (t.gather(np.arange(0, 1000, 7)) == 10).all()
w.send({'from': host, 'rows': np.arange(50_000) + w.rank}, (w.rank + 2) % 4)
got = w.recv()
assert got['from'] != host and (got['rows'] == np.arange(50_000) + (w.rank + 2) % 4).all()
pages = svm.empty((4, 4096), 'f8')
pages[w.rank] = w.rank
svm.barrier()
assert (pages[(w.rank + 2) % 4] == (w.rank + 2) % 4).all()
svm.barrier()
if 'raise' in sys.argv and w.rank == 3:
    raise ValueError('on ' + host)
w.barrier()
print('right on', host)
"""


def done(*words, **how):
    return subprocess.run(words, capture_output=True, text=True, timeout=200, **how)


class Machines:
    """Two machines with an environment each."""

    def __init__(self, folder):
        self.folder = folder
        up = done(BED, "up", "2", folder)
        if up.returncode != 0:
            pytest.skip(f"SKIPPED: {up.stderr}")
        # The words that enter the network from which the machines are reached.
        self.enter = shlex.split(up.stdout.splitlines()[-1])[:3]
        self.ssh = f"ssh -F {folder}/ssh_config"

    def on(self, machine, *words):
        return done(*self.enter, *shlex.split(self.ssh), machine, shlex.join(map(str, words)))

    def install(self, machine):
        """Makes an environment with the wheel; NumPy is that of the suite, below the wheel's."""
        for words in [
            [sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT],
            [sys.executable, "-m", "pip", "--python", f"{ENVIRONMENT}/bin/python", "install", "--quiet",
             "--no-index", "--no-deps", WHEEL],
            ["sh", "-c", f"echo '{pathlib.Path(pytest.__file__).parents[1]}' >"
             f"$(echo {ENVIRONMENT}/lib/python*/site-packages)/suite.pth"],
        ]:
            installed = self.on(machine, *words)
            assert installed.returncode == 0, installed

    def job(self, script, *words):
        """Runs a script on four ranks, from the first machine."""
        python = [f"{ENVIRONMENT}/bin/python", "-m", "clump", "run", "--hosts", "m1:2,m2:2"]
        # Ten times what a machine is given elsewhere.
        patient = ["env", "CLUMP_START_TIMEOUT_MS=80000"]
        return self.on("m1", *patient, *python, "--ssh", self.ssh, script, *words)


@pytest.fixture(scope="module")
def machines():
    if BED is None or WHEEL is None:
        pytest.skip(
            "SKIPPED: CLUMP_TEST_MACHINES names no program, or CLUMP_TEST_WHEEL no wheel (cargo build "
            "--package clump-process-tests --bin machines; pip wheel python)"
        )
    # Not below /tmp, which each machine has of its own.
    folder = pathlib.Path(BED).resolve().parent / f"machines-python-{os.getpid()}"
    machines = Machines(folder)
    try:
        for machine in ["m1", "m2"]:
            machines.install(machine)
        yield machines
    finally:
        down = done(BED, "down", folder)
        assert down.returncode == 0, down


@pytest.fixture
def script(machines):
    path = machines.folder / "shared" / "program.py"
    path.write_text(PROGRAM)
    return path


def test_ranks_of_two_machines_share_arrays_objects_and_pages(machines, script):
    job = machines.job(script)
    assert job.returncode == 0, job
    assert sorted(job.stdout.splitlines()) == ["right on m1"] * 2 + ["right on m2"] * 2, job


def test_an_exception_on_another_machine_ends_the_job(machines, script):
    job = machines.job(script, "raise")
    assert job.returncode == 1 and "right" not in job.stdout, job
    assert "ValueError: on m2" in job.stderr and "node 1 (m2)" in job.stderr, job
    left = machines.on("m2", "pgrep", "-f", "clump._rank")
    assert left.returncode == 1, left
