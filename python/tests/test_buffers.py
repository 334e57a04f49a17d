"""Memory of arrays as others use it: the buffer protocol, DLPack, files; and long messages."""

import os

import pytest

VIEWS = """
import clump, numpy as np, pytest
w = clump.world()
g = clump.zeros(1000, 'f8')
for look in (memoryview, np.from_dlpack, np.asarray, lambda a: np.frombuffer(a, 'f8')):
    other = look(g.local)
    for i in range(3): other[i] = w.rank + 1
    assert (g.local[:3] == w.rank + 1).all()
    # All ranks refuse, since one of them has a view.
    if w.rank: del other
    with pytest.raises(BufferError): g.free()
    other = None
w.barrier()
g.local.tofile(f'{w.rank}.bin')
g.local[:] = 0
g.local[:] = np.fromfile(f'{w.rank}.bin')
with open(f'{w.rank}.bin', 'rb') as file:
    assert file.readinto(g.local) == g.local.nbytes
assert g.local[2] == w.rank + 1
w.barrier()
g.free()
print('right')
"""

LONG = """
import clump, numpy as np
w = clump.world()
n = (1 << 31) + 12345
if w.rank == 0:
    data = np.arange(n, dtype='u1')
    w.send(data, 1)
    w.send({'a': data, 'b': [1]}, 1)
else:
    for got in (w.recv(0), w.recv(0)['a']):
        assert got.nbytes == n and got[-1] == (n - 1) % 256 and got[1 << 31] == 0
        del got
g = clump.empty(n // 2, 'i2', spread='block')
if w.rank == 0:
    g.put(n // 2 - 5, np.arange(5))
w.barrier()
assert (g[n // 2 - 5 : n // 2] == np.arange(5)).all()
w.barrier()
g.free()
print('right')
"""


def test_views_of_other_kinds(run):
    for nodes in (1, 2):
        job = run(VIEWS, n=3, nodes=nodes)
        assert job.out.count("right") == 3, job


@pytest.mark.skipif(
    os.environ.get("CLUMP_TEST_TIER") != "night", reason="at night: it takes 10 GiB of memory"
)
def test_messages_and_arrays_beyond_two_gibibytes(run):
    free = next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable"))
    if int(free.split()[1]) < 12 << 20:
        pytest.skip("SKIPPED: less than 12 GiB of memory are free")
    job = run(LONG, n=2, seconds=200)
    assert job.out.count("right") == 2, job
