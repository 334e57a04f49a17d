"""Breadth-first search: distances are minima that all ranks update."""

import numpy as np

import clump

w = clump.world()
n = 3_000
edges = np.random.default_rng(3).integers(0, n, (4 * n, 2))
mine = edges[w.rank :: w.size]
far = n + 1
distance = clump.zeros(n, "i8", spread="cyclic")
distance.local[:] = far
w.barrier()
if w.rank == 0:
    distance[0] = 0
w.barrier()

for level in range(n):
    for begin, end in (mine.T, mine.T[::-1]):
        frontier = distance[begin] == level
        distance.update(end[frontier], level + 1, "min")
    w.barrier()
    if not w.allreduce(int((distance.local == level + 1).any()), "max"):
        break

if w.rank == 0:
    serial = np.full(n, far)
    serial[0] = 0
    for _ in range(level + 1):
        for begin, end in (edges.T, edges.T[::-1]):
            np.minimum.at(serial, end, serial[begin] + 1)
    assert (np.minimum(serial, far) == distance[:]).all()
    print("right:", int((serial < far).sum()), "vertices within", level, "steps")
w.barrier()
