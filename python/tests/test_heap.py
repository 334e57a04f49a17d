"""Handlers of faults beside the heap's: Python's own, before it and after."""

import pytest

HEAP = """
import clump, ctypes, faulthandler, sys
import numpy as np
from clump import svm
w = clump.world()
{before}
a = svm.empty((4, 5000), 'i8')
{after}
for turn in range(3):
    a[(w.rank + turn) % 4] += 1
    svm.barrier()
assert a.sum() == 3 * 4 * 5000
print('ok', flush=True)
svm.barrier()
if len(sys.argv) > 1 and w.rank == 0:
    ctypes.string_at(0)
svm.barrier()
"""
PLACES = {
    "before": ("faulthandler.enable()", ""),
    "after": ("", "faulthandler.enable()"),
    "both": ("faulthandler.enable()", "faulthandler.enable()"),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_heap_works_beside_faulthandler(run, place):
    before, after = PLACES[place]
    off = {"PYTHONFAULTHANDLER": ""}
    job = run(HEAP.format(before=before, after=after), n=4, nodes=2, env=off)
    assert job.out.count("ok") == 4 and not job.err, job


def test_a_fault_of_the_program_has_pythons_report(run):
    job = run(HEAP.format(before="", after=""), "fault", n=4, nodes=2, good=False)
    assert job.code != 0 and "Fatal Python error: Segmentation fault" in job.err, job
    assert "SIGSEGV" in job.err and "string_at" in job.err, job


def test_system_calls_work_on_pages_that_were_fetched(run):
    job = run(
        """
import clump, numpy as np, os
from clump import svm
w = clump.world()
a = svm.empty(100_000, 'f8', home='cyclic')
if w.rank == 0: a[:] = np.arange(a.size)
svm.barrier()
name = f'file-{w.rank}'
svm.prefetch(a).tofile(name)
assert (np.fromfile(name) == np.arange(a.size)).all()
np.save(name + '.npy', svm.prefetch(a))
assert (np.load(name + '.npy') == np.arange(a.size)).all()
svm.barrier()
mine = np.array_split(a, w.size)[w.rank]
svm.prefetch(mine, write=True)
with open(name, 'rb') as file:
    assert file.readinto(memoryview(mine).cast('B')) == mine.nbytes
svm.barrier()
assert all((part == np.arange(part.size)).all() for part in np.array_split(a, w.size))
print('ok')
""",
        n=4,
        nodes=2,
    )
    assert job.out.count("ok") == 4, job
