"""Pi by darts: each rank throws its own, one reduction sums them."""

import numpy as np

import clump

w = clump.world()
x, y = np.random.default_rng(w.rank).random((2, 500_000))
inside = w.allreduce(int((x * x + y * y < 1).sum()))
pi = 4 * inside / (500_000 * w.size)
assert abs(pi - np.pi) < 0.02
if w.rank == 0:
    print("right: about", pi)
