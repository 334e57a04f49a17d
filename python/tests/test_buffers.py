"""Memory of arrays as others use it: the buffer protocol, DLPack, files; and long messages."""

import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import PROGRAMS
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_200_random_orders_of_views_and_frees_up_to_the_end(run):
    for nodes in (1, 2):
        job = run("views.py", nodes, 200, n=2, nodes=nodes, env={"PYTHONWARNINGS": "ignore"})
        assert job.out.count("ok") == 2, job


def test_an_array_that_was_never_freed_is_named(run):
    body = "import clump, gc\nw = clump.world()\nclump.zeros(77, 'i4')\ngc.collect()\nw.barrier()\n"
    job = run(body, n=2, env={"PYTHONWARNINGS": "default"})
    assert job.err.count("GlobalArray int32 (77,)") == 2 and "never freed" in job.err, job


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind (apt-get install valgrind)")
@pytest.mark.skipif(
    os.environ.get("CLUMP_TEST_TIER") != "night", reason="at night: it takes half a minute"
)
def test_200_random_orders_touch_no_memory_that_has_gone():
    suppressed = pathlib.Path(__file__).parent / "valgrind.supp"
    command = [
        "valgrind", "--undef-value-errors=no", "--error-exitcode=9", f"--suppressions={suppressed}",
        sys.executable, "-W", "ignore", PROGRAMS / "views.py", "1", "200",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONMALLOC": "malloc"}, timeout=900
    )
    assert done.returncode == 0 and done.stdout == "ok\n", done


@st.composite
def odd_arrays(draw):
    """Arrays of any type, order of bytes, strides, and alignment."""
    dtype = np.dtype(draw(st.sampled_from(["i1", "u2", "<i4", ">i4", "f8", ">f8", "c16", "?", "S3", "U2", "M8[s]", "i4,f8"])))
    count = draw(st.integers(0, 40))
    offset = draw(st.integers(0, 3))
    raw = bytes(draw(st.integers(0, 1)) for _ in range(8)) * (6 * dtype.itemsize)
    base = np.frombuffer(bytearray(raw), dtype, count, offset=offset)
    step = draw(st.sampled_from([1, 2, 3, -1, -2]))
    base = base[::step]
    if draw(st.booleans()) and base.size % 2 == 0:
        base = base.reshape(2, -1)
        base = base.T if draw(st.booleans()) else base
    if draw(st.booleans()):
        base.flags.writeable = False
    return base


@settings(max_examples=300, deadline=None)
@given(array=odd_arrays())
def test_arrays_of_any_type_strides_and_alignment_arrive_as_they_are(array):
    # A job of one rank, in this process: messages go to itself.
    import clump

    w = clump.world()
    w.send(array, 0)
    # NumPy's own pickles of some arrays have another order of bytes.
    wanted = pickle.loads(pickle.dumps(array, 5))
    for got in (w.recv(0), w.bcast(wanted), w.allgather(array)[0], w.alltoall([array])[0]):
        assert got.dtype == wanted.dtype and got.shape == array.shape
        assert got.tobytes() == wanted.tobytes()
    flat = np.ascontiguousarray(array).reshape(-1)
    with clump.zeros(flat.size + 3, array.dtype, "cyclic") as g:
        g.put(2, array.reshape(-1))
        assert g.get(2, 2 + flat.size).tobytes() == flat.tobytes()
        where = np.arange(flat.size)[::-1] + 1
        g[where] = array.reshape(-1)
        assert g[where].tobytes() == flat.tobytes()
