"""Counts of keys: additions go to the rank of each bin, many in one message."""

import numpy as np

import clump

w = clump.world()
bins = clump.zeros(1 << 16, "i8", spread="cyclic")
keys = np.random.default_rng(w.rank).integers(0, bins.size, 200_000)
bins.add(keys, 1)
w.barrier()

total = w.allreduce(np.array([bins.local.sum()]))[0]
fullest = w.allreduce(int(bins.local.max()), "max")
assert total == 200_000 * w.size
if w.rank == 0:
    print("right:", total, "keys, at most", fullest, "in a bin")
