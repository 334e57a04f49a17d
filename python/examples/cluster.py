"""A cluster, as a notebook has it: cells run on all ranks, which keep their variables."""

import clump

with clump.Cluster(4, nodes=2) as c:  # clients of it need no guard
    c.run("import clump, numpy as np; w = clump.world(); t = clump.zeros(100, 'i8')")
    c.run("t.add(np.arange(100), w.rank); w.barrier()")
    c.run("print('rank', w.rank, 'of', w.size, 'has', t.local.sum())")
    sums = c.values("int(t.local.sum())")
    try:
        c.run("1 / (w.rank - 2)", show=False)
    except clump.CellError as error:
        print("rank", error.rank, "failed:", error.__cause__)
    assert sum(sums) == 100 * (0 + 1 + 2 + 3)
print("right")
