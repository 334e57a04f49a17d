"""mpi4py and clump in one process, by the engines of Open MPI and MPICH."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

PROGRAM = r"""
from mpi4py import MPI
import clump, sys
import numpy as np
from clump import svm
c, w = MPI.COMM_WORLD, clump.world()
assert (w.rank, w.size) == (c.rank, c.size)
for i in range(20):
    assert w.allreduce(w.rank * i) == c.allreduce(c.rank * i)
t = clump.zeros(100, 'i8')
t.add(range(100), 1)
w.barrier()
c.Barrier()
assert (t.local == w.size).all()
before, after = (w.rank - 1) % w.size, (w.rank + 1) % w.size
# Both have something under way.
request = c.isend({'from': w.rank}, after)
w.send([w.rank], after)
assert w.recv(before) == [before] and c.recv(source=before) == {'from': before}
request.wait()
g = svm.empty((w.size, 1 << 17), 'f8')
g[w.rank] = w.rank
svm.barrier()
got = np.empty(1 << 17)
svm.prefetch(g[w.rank])
c.Sendrecv(g[w.rank], after, recvbuf=got, source=before)
assert (got == before).all()
if 'raise' in sys.argv and w.rank == 1:
    raise ValueError('of one rank')
if 'raise' in sys.argv:
    w.barrier()
if 'finalize' in sys.argv:
    MPI.Finalize()
    w.barrier()
sys.stdout.write(f'right {MPI.Get_library_version()[:9]}\n')
"""

LATE = """
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
import clump
try:
    clump.world()
except clump.StartError as error:
    print(error)
"""

#: The wheel of MPICH lies in the environment.
MPICH = pathlib.Path(sys.prefix)
#: Engines: a program, its arguments, and the variable by which mpi4py finds the library.
ENGINES = {
    "Open MPI": ("mpirun.openmpi", ["--oversubscribe"], {"MPI4PY_MPIABI": "openmpi"}),
    "MPICH": (str(MPICH / "bin/mpiexec.hydra"), [], {"MPI4PY_LIBMPI": str(MPICH / "lib/libmpi.so.12")}),
}


def by_engine(engine, script, *words):
    """Runs a script on four ranks by an engine."""
    pytest.importorskip("mpi4py", reason="SKIPPED: no mpi4py here (pip install mpi4py mpich)")
    program, options, library = ENGINES[engine]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here (Debian: openmpi-bin; PyPI: mpich)")
    variables = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "CLUMP_ENGINE_NODES": "2",
        **library,
    }
    # Open MPI leaves its folder there when a rank has failed.
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [program, *options, "-n", "4", sys.executable, script, *words],
            capture_output=True,
            text=True,
            timeout=100,
            env={**os.environ, **variables, "TMPDIR": folder},
        )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("end", ["", "finalize"])
def test_ranks_are_those_of_mpi(tmp_path, engine, end):
    script = tmp_path / "both.py"
    script.write_text(PROGRAM)
    done = by_engine(engine, script, end)
    assert done.returncode == 0, done
    kind = "Open MPI" if engine == "Open MPI" else "MPICH"
    assert done.stdout.count("right " + kind) == 4, done


@pytest.mark.parametrize("engine", ENGINES)
def test_an_exception_of_one_rank_ends_all(tmp_path, engine):
    script = tmp_path / "both.py"
    script.write_text(PROGRAM)
    done = by_engine(engine, script, "raise")
    assert done.returncode != 0 and "right" not in done.stdout, done
    assert "ValueError: of one rank" in done.stderr, done


@pytest.mark.parametrize("engine", ENGINES)
def test_mpi_has_to_be_first(tmp_path, engine):
    script = tmp_path / "late.py"
    script.write_text(LATE)
    done = by_engine(engine, script)
    assert done.stdout.count("call MPI_Init before clump") == 4, done


def test_under_the_package_each_rank_is_a_job_of_mpis_own(tmp_path, run):
    pytest.importorskip("mpi4py", reason="SKIPPED: no mpi4py here (pip install mpi4py mpich)")
    text = """
from mpi4py import MPI
import clump
w = clump.world()
assert MPI.COMM_WORLD.size == 1 and w.size == 3
assert MPI.COMM_WORLD.allreduce(5) == 5 and w.allreduce(1) == 3
print('right')
"""
    program, _, library = ENGINES["Open MPI"]
    if shutil.which(program) is None:
        library = ENGINES["MPICH"][2]
    job = run(text, n=3, env=library)
    assert job.out.count("right") == 3, job
