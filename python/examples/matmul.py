"""A matrix product: rows of A and C are blocks, columns of B are read from their owners."""

import numpy as np

import clump

w = clump.world()
n = 240
a, b, c = (clump.zeros((n, n), "f8", spread=n) for _ in range(3))  # rows, in turn
rows = a.local_indexes().reshape(-1, n)[:, 0] // n
everything = np.random.default_rng(5).random((2, n, n))
a.local[:] = everything[0][rows].ravel()
b.local[:] = everything[1][rows].ravel()
w.barrier()

c.local[:] = (a.local.reshape(-1, n) @ b.get().reshape(n, n)).ravel()
w.barrier()
assert np.allclose(c.get().reshape(n, n), everything[0] @ everything[1])
w.barrier()
print("right: rank", w.rank, "has", len(rows), "rows")
