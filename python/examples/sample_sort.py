"""Sort: splitters from samples, one exchange, and a sort of each part."""

import numpy as np

import clump

w = clump.world()
keys = np.random.default_rng(w.rank).integers(0, 1 << 40, 100_000)
samples = np.sort(np.concatenate(w.allgather(np.random.default_rng(1).choice(keys, 64))))
splitters = samples[64 * np.arange(1, w.size)]
keys.sort()
parts = np.split(keys, np.searchsorted(keys, splitters))
mine = np.sort(np.concatenate(w.alltoall(parts)))

assert (np.diff(mine) >= 0).all()
ends = w.allgather((mine[0], mine[-1]))
assert all(before[1] <= after[0] for before, after in zip(ends, ends[1:]))
assert w.allreduce(int(mine.sum())) == w.allreduce(int(keys.sum()))
if w.rank == 0:
    print("right: sorted", w.allreduce(mine.size), "keys")
else:
    w.allreduce(mine.size)
