"""Random reads: one call gathers elements of all ranks."""

import numpy as np

import clump

w = clump.world()
table = clump.zeros(100_000, "u8", spread="cyclic")
mine = table.local_indexes()
table.local[:] = mine * 3
w.barrier()

wanted = np.random.default_rng(w.rank).integers(0, table.size, 50_000)
found = table[wanted]
assert (found == wanted.astype("u8") * 3).all()
w.barrier()
print("right:", w.rank, "read", found.size)
