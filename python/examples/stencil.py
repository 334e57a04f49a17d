"""Heat in a rod: each rank has a block, and reads one cell of each neighbour."""

import numpy as np

import clump

w = clump.world()
n, steps = 4_000, 50
old, new = clump.zeros(n, "f8"), clump.zeros(n, "f8")
cells = old.local_indexes()
old.local[:] = np.sin(cells * (2 * np.pi / n))
w.barrier()

first, last = int(cells[0]), int(cells[-1])
for _ in range(steps):
    rod = np.concatenate(([old[first - 1]], old.local, [old[(last + 1) % n]]))
    new.local[:] = rod[1:-1] + 0.25 * (rod[:-2] - 2 * rod[1:-1] + rod[2:])
    w.barrier()
    old, new = new, old

if w.rank == 0:
    serial = np.sin(np.arange(n) * (2 * np.pi / n))
    for _ in range(steps):
        serial = serial + 0.25 * (np.roll(serial, 1) - 2 * serial + np.roll(serial, -1))
    assert np.allclose(old[:], serial)
    print("right: as NumPy has it, after", steps, "steps")
w.barrier()
