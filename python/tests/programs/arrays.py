"""Global arrays: every kind of access against NumPy, in every layout."""

import sys

import clump
import numpy as np

w = clump.world()
TYPES = ["i8", "f4", "u2", "c16", "S5", [("a", "i4"), ("b", "f8")], ">i4", "i1", "f2", "?", "f8", "u4"]
N = 101

for spread in ("block", "cyclic", 3):
    for dtype in TYPES:
        with clump.zeros(N, dtype, spread) as g:
            small = (np.arange(N) * 37 % 120).astype("u1")
            if g.dtype.names:
                v = np.zeros(N, dtype)
                v["a"], v["b"] = small, small / 2
            else:
                v = small.astype(dtype)
            where = (spread, dtype)
            if w.rank == 0:
                g[:] = v
            w.barrier()
            assert (g[:] == v).all(), where
            assert (g[[5, 100, -1, 5]] == v[[5, 100, -1, 5]]).all(), where
            assert (g[np.array([[1, 2], [3, 4]])] == v[[[1, 2], [3, 4]]]).all(), where
            assert (g[10:90:7] == v[10:90:7]).all(), where
            assert (g[13:77] == v[13:77]).all() and g[50:50].size == 0, where
            assert (g[small > 60] == v[small > 60]).all(), where
            assert (g.local == v[g.local_indexes()]).all(), where
            assert sum(w.allgather(g.local.size)) == N
            for near in range(w.size):
                if w.node_of(near) == w.node:
                    assert (g.near(near) == v[g.indexes_of(near)]).all(), where
            out = np.empty(64, dtype)
            assert g.get(13, 77, out=out) is out and (out == v[13:77]).all(), where
            w.barrier()
            if w.rank == w.size - 1:
                g[[3, 4, 50]] = v[[50, 3, 4]]
                g[7] = v[8]
                g.put(90, v[:3])
            w.barrier()
            v[[3, 4, 50]] = v[[50, 3, 4]]
            v[7] = v[8]
            v[90:93] = v[:3]
            assert (g[:] == v).all(), where

UPDATES = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "xor": np.bitwise_xor,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
for op, function in UPDATES.items():
    for dtype in ("i8", "u4", "i2", "f8", "f4", "u8"):
        if dtype[0] == "f" and op in ("xor", "and", "or"):
            continue
        g, expected = clump.zeros(50, dtype, "cyclic"), np.zeros(50, dtype)
        for rank in range(w.size):
            rng = np.random.default_rng(rank)
            indexes = rng.integers(0, 50, 200).astype(("i8", "i4", "u8", "i2")[rank % 4])
            values = rng.integers(0, 9, 200).astype(dtype)
            function.at(expected, indexes, values)
            if rank == w.rank:
                g.update(indexes, values, op)
                g.update(3, 1, op)
            function.at(expected, 3, np.array(1, dtype))
        w.barrier()
        assert (g[:] == expected).all(), (op, dtype)
        g.free()

g = clump.zeros(10)
g.add([1, 1, 1], 0.5)
g[1] = g[1] + 1  # this rank's own operations keep their order
assert g[1] >= 2.5
w.barrier()


def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError((kind, text))


refused(IndexError, "index 77 at position 2", lambda: g[[1, 2, 77]])
refused(IndexError, "index -11 at position 0", lambda: g.add([-11], 1))
refused(IndexError, "index 10 is out of bounds", lambda: g[10])
refused(IndexError, "", lambda: g.put(8, np.zeros(5)))
refused(TypeError, "indexes are integers", lambda: g[[0.5]])
refused(ValueError, "", lambda: g.add([1, 2, 3], [1, 2]))
refused(TypeError, "", lambda: clump.zeros(4, "i4").add([0], 0.5))
refused(OverflowError, "do not fit", lambda: clump.zeros(4, "i1").add([0], 1000))
refused(TypeError, "no update", lambda: clump.zeros(4, "c16").add([0], 1))
refused(TypeError, "cannot be in memory", lambda: clump.zeros(4, object))
refused(ValueError, "spread", lambda: clump.zeros(4, "i4", "diagonal"))
# Values and places anywhere in memory, in any order.
unaligned = np.frombuffer(bytearray(25), "f8", 3, offset=1)
assert not unaligned.flags.aligned
if w.rank == 0:
    unaligned[:] = 1, 2, 3
    g[4:7] = unaligned
    g[[7, 8, 9]] = unaligned
    g.add([7, 8, 9], unaligned)
w.barrier()
assert g[[4, 5, 6, 7, 8, 9]].tolist() == [1, 2, 3, 2, 4, 6]
refused(ValueError, "aligned", lambda: g.gather([1, 2, 3], out=unaligned))
refused(ValueError, "contiguous", lambda: g.gather([[1, 2], [3, 4]], out=np.zeros((2, 2), order="F")))
refused(TypeError, "contiguous", lambda: g.get(0, 5, out=np.zeros(10)[::2]))
assert [float(x) for x in g] == g[:].tolist() and np.asarray(g).shape == (10,)

# A tuple of indexes means one for each dimension.
grid = clump.zeros((4, 5), "i8", "cyclic")
if w.rank == w.size - 1:
    grid[:] = np.arange(20)
w.barrier()
model = np.arange(20).reshape(4, 5)
assert grid[2, 3] == 13 and grid[-1, -5] == 15 and (np.asarray(grid) == model).all()
assert (grid[[0, 1], [2, 3]] == model[[0, 1], [2, 3]]).all()
assert (grid[np.arange(4)[:, None], np.arange(5)] == model).all()
assert [row.tolist() for row in grid] == model.tolist()
refused(IndexError, "dimension 1", lambda: grid[0, 5])
refused(IndexError, "3 indexes for an array of 2", lambda: grid[0, 1, 2])
refused(TypeError, "tuple", lambda: grid[0, :])
w.barrier()
grid[w.rank % 4, np.arange(5)] = -1
w.barrier()
assert (np.asarray(grid)[: w.size] == -1).all()
w.barrier()

# Errors say which operation failed.
refused(clump.ClumpTimeout, "limit", lambda: w.recv(timeout=0.01))
try:
    w.recv(timeout=0.01)
except clump.ClumpError as error:
    assert error.op == "recv", error.op
view = g.local
refused(BufferError, "views of this array", g.free)
del view
g.free()
refused(clump.ClumpError, "freed", lambda: g[0])

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 100):  # nothing is left of one
    with clump.zeros(1000, "i4") as t:
        t.add([1, 999], 1)
print("ok", w.rank)
