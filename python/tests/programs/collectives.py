"""Collectives of objects and arrays, and teams."""
import clump, numpy as np, sys
w = clump.world()
assert w.allgather(w.rank) == list(range(w.size))
assert w.bcast({"a": 1} if w.rank == 1 % w.size else None, 1 % w.size) == {"a": 1}
a = np.arange(100000.) + w.rank
b = w.bcast(a, 0); assert (b == np.arange(100000.)).all() and b.flags.writeable
r = w.allreduce(a, "sum"); assert np.allclose(r, np.arange(100000.) * w.size + sum(range(w.size)))
assert w.allreduce(w.rank, "max") == w.size - 1
assert w.allreduce(2, lambda a, b: a * b) == 2 ** w.size
g = w.gather(np.full(3, w.rank), 0)
if w.rank == 0: assert [int(x[0]) for x in g] == list(range(w.size))
assert w.scatter([i * i for i in range(w.size)] if w.rank == 0 else None) == w.rank ** 2
assert w.alltoall([(w.rank, i) for i in range(w.size)]) == [(i, w.rank) for i in range(w.size)]
assert w.scan(1) == w.rank + 1
assert w.exscan(1) == (w.rank or None)
mine = [r for r in range(w.size) if r % 2 == w.rank % 2]
t = w.split(w.rank % 2, -w.rank)
assert t.size == len(mine)
t.barrier()
assert t.allgather(w.rank) == mine[::-1]
assert w.split(None) is None
print("ok", w.rank)
