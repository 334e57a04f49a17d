"""Programs that compare themselves with NumPy, in several layouts, with loss, and crowded."""

import pytest

from conftest import LAYOUTS

PROGRAMS = [
    "collectives.py",
    "messages.py",
    "endpoints.py",
    "endpoint_threads.py",
    "arrays.py",
    "heap.py",
    "awaits.py",
    "views.py",
]


def env_of(program):
    """Arrays that are never freed are a part of one program, and warn."""
    return {"PYTHONWARNINGS": "ignore::ResourceWarning"} if program == "views.py" else {}


FAULTS = {"CLUMP_NET_FAULTS": "loss=2%,duplicate=1%,reorder=5%,seed=7"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout[0]}x{layout[1]}")
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_right(run, program, layout):
    n, nodes = layout
    job = run(program, n=n, nodes=nodes, env=env_of(program))
    assert job.out.count("ok") == n, job
    assert not job.err, job


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_right_while_packets_are_lost(run, program):
    job = run(program, n=4, nodes=2, env=FAULTS, seconds=120)
    assert job.out.count("ok") == 4, job


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_right_by_proxies(run, program):
    job = run(program, n=4, nodes=2, env={"CLUMP_NI": "proxy:1"}, seconds=120)
    assert job.out.count("ok") == 4, job


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_right_with_many_ranks_a_core(run, program):
    job = run(program, n=16, nodes=2, seconds=150)
    assert job.out.count("ok") == 16, job


FIRST = """
import clump, numpy as np
w = clump.world()
t = clump.zeros(1 << 20, 'i8')
keys = np.random.default_rng(w.rank).integers(0, t.size, 10**6)
t.add(keys, 1); w.barrier(); print(w.rank, t.local.sum())
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_first_screen_counts_every_key(run, nodes):
    job = run(FIRST, n=4, nodes=nodes)
    counts = dict(map(int, line.split()) for line in job.out.splitlines())
    assert sorted(counts) == [0, 1, 2, 3] and sum(counts.values()) == 4 * 10**6, job
