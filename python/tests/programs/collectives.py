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
row, rows = np.arange(4) + w.rank, np.zeros((w.size, 4), "i8")
assert w.allgather(row, out=rows) is rows and (rows == np.arange(4) + np.arange(w.size)[:, None]).all()
got = w.gather(row, 0, out=rows)
assert (got is rows) == (w.rank == 0)
rows[:] = 0
w.alltoall([row * rank for rank in range(w.size)], out=rows)
assert (rows == (np.arange(4) + np.arange(w.size)[:, None]) * w.rank).all()
one = np.zeros(4)
assert w.bcast(row, 0, out=one) is one and (one == np.arange(4)).all()
w.scatter([row * 2] * w.size if w.rank == 0 else None, out=one)
assert (one == 2 * np.arange(4)).all()
assert (w.scan(row, out=one) == sum(np.arange(4) + rank for rank in range(w.rank + 1))).all()
total = w.reduce(row, out=np.zeros(4, "i8"))
assert (total == w.size * np.arange(4) + sum(range(w.size))).all() if w.rank == 0 else total is None
try:
    w.bcast(row, 0, out=np.zeros(1))
except ValueError as error:
    assert "shape" in str(error)
else:
    raise AssertionError("out of another shape")
unaligned = np.frombuffer(bytearray(33), "i8", 4, offset=1)
try:
    w.allreduce(unaligned)
    w.allreduce(row, out=unaligned)
except ValueError as error:
    assert "aligned" in str(error)
else:
    raise AssertionError("out that is not aligned")
mine = [r for r in range(w.size) if r % 2 == w.rank % 2]
t = w.split(w.rank % 2, -w.rank)
assert t.size == len(mine)
t.barrier()
assert t.allgather(w.rank) == mine[::-1]
assert w.split(None) is None
print("ok", w.rank)
