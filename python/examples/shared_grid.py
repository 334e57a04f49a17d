"""A grid in shared memory: ranks relax their rows, a barrier shows them to the others."""

import numpy as np

import clump
from clump import svm

w = clump.world()
n, steps = 64, 30
grids = [svm.empty((n, n), "f8"), svm.empty((n, n), "f8")]
lo, hi = 1 + w.rank * (n - 2) // w.size, 1 + (w.rank + 1) * (n - 2) // w.size
if w.rank == 0:
    for grid in grids:
        grid[0, :] = 1
svm.barrier()


def relax(old, new, lo, hi):
    middle = old[lo - 1 : hi - 1, 1:-1] + old[lo + 1 : hi + 1, 1:-1]
    new[lo:hi, 1:-1] = 0.25 * (middle + old[lo:hi, :-2] + old[lo:hi, 2:])


for step in range(steps):
    relax(grids[step % 2], grids[1 - step % 2], lo, hi)
    svm.barrier()

serial = [np.zeros((n, n)), np.zeros((n, n))]
for grid in serial:
    grid[0, :] = 1
for step in range(steps):
    relax(serial[step % 2], serial[1 - step % 2], 1, n - 1)
assert (grids[steps % 2] == serial[steps % 2]).all()
svm.barrier()
print("right: rank", w.rank, "relaxed rows", lo, "to", hi)
