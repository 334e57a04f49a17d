"""Measures the package: import, scalar and vector operations, messages beside mpi4py, tasks.

    python compare.py [--mpi]

Runs its parts as jobs of two ranks, in turns, and prints medians of rounds. `--mpi` measures mpi4py
by the `mpirun` of the environment, too.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = 5
HERE = pathlib.Path(__file__).resolve()


def spread(times):
    """Returns the median of times, per round."""
    return statistics.median(times)


def pingpong(rank, send, recv, array):
    """Returns seconds of a round trip of a small object, and of 1 MiB."""
    small = {f"field{i}": i for i in range(8)}
    found = {}
    for name, value, count in (("object", small, 2000), ("array", array, 200)):
        rounds = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for _ in range(count):
                if rank == 0:
                    send(value, 1)
                    recv(1)
                else:
                    send(recv(0), 0)
            rounds.append((time.perf_counter() - began) / count)
        found[name] = spread(rounds)
    return found


def timed(run, count=1, before=lambda: None):
    """Returns seconds of a call."""
    times = []
    for _ in range(ROUNDS):
        before()
        began = time.perf_counter()
        for _ in range(count):
            run()
        times.append((time.perf_counter() - began) / count)
    return spread(times)


def tasks(executor):
    """Returns the rate of tasks, and the time of one."""
    rate = 5000 / timed(lambda: list(executor.map(abs, range(5000), chunksize=1)))
    return {"tasks/s": rate, "first result": timed(lambda: executor.submit(abs, -1).result())}


def clump_part():
    import numpy as np

    import clump

    w = clump.world()
    found = pingpong(w.rank, w.send, w.recv, np.zeros(1 << 17))
    table = clump.zeros(1 << 20, "i8", spread="cyclic")
    indexes = np.random.default_rng(w.rank).integers(0, table.size, 10**6)
    out = np.empty(10**6, "i8")
    w.barrier()
    operations = {
        "add of 1 M": lambda: table.add(indexes, 1),
        "gather of 1 M": lambda: table.gather(indexes, out=out),
        "scatter of 1 M": lambda: table.__setitem__(indexes, out),
    }
    for name, run in operations.items():
        found[name] = timed(run, before=w.barrier)
    w.barrier()
    near = int(table.local_indexes()[0])
    for name, run in (
        ("scalar read", lambda: table[near]),
        ("scalar add", lambda: table.add(near, 1)),
    ):
        found[name] = timed(run, count=100_000)
    w.barrier()
    if w.rank == 0:
        print(json.dumps(found))


def mpi_part():
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    array = np.zeros(1 << 17)
    found = pingpong(comm.rank, comm.send, lambda source: comm.recv(source=source), array)
    if comm.rank == 0:
        print(json.dumps(found))


def executor_part():
    import clump

    began = time.perf_counter()
    with clump.Executor(2) as executor:
        list(executor.map(abs, range(100), chunksize=1))
        started = time.perf_counter() - began
        print(json.dumps({**tasks(executor), "start": started}))


def mpi_executor_part():
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        list(executor.map(abs, range(100)))
        print(json.dumps(tasks(executor)))


def imports(module):
    """Returns seconds that an interpreter takes longer with an import."""
    times = {"pass": [], f"import {module}": []}
    for _ in range(15):
        for code, rounds in times.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            rounds.append(time.perf_counter() - began)
    plain, loaded = (spread(rounds) for rounds in times.values())
    return loaded - plain


def job(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{command} failed:\n{done.stdout}\n{done.stderr}")
    return json.loads(lines[-1])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--mpi", action="store_true")
    options.add_argument("--part")
    given = options.parse_args()
    parts = {
        "clump": clump_part,
        "mpi": mpi_part,
        "executor": executor_part,
        "mpi-executor": mpi_executor_part,
    }
    if given.part:
        parts[given.part]()
        return
    print("import clump:", f"{imports('clump') * 1e3:.1f} ms")
    run = [sys.executable, "-m", "clump", "run", "-n", "2"]
    mpirun = [
        shutil.which("mpirun", path=os.path.dirname(sys.executable)) or "mpirun",
        "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable,
    ]
    print("clump:", job([*run, str(HERE), "--part", "clump"]))
    if given.mpi:
        print("mpi4py:", job([*mpirun, str(HERE), "--part", "mpi"]))
    print("clump:", job([*run, str(HERE), "--part", "clump"]))
    print("Executor:", job([sys.executable, str(HERE), "--part", "executor"]))
    if given.mpi:
        futures = [*mpirun[:-3], "-n", "3", sys.executable, "-m", "mpi4py.futures"]
        print("MPIPoolExecutor:", job([*futures, str(HERE), "--part", "mpi-executor"]))


if __name__ == "__main__":
    main()
