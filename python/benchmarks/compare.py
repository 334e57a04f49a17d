"""Measures the package beside Rust and beside mpi4py, in turns, and compares with its goals.

    python compare.py [--elements target/release/examples/elements] [--wheel FILE] [--json FILE]

Without `--elements` operations on elements are not compared with Rust, without mpi4py in the
environment messages and tasks are not compared, and without `--wheel` no installation is timed.
Prints medians of rounds, ratios and goals; nothing fails if a goal is missed.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
HERE = pathlib.Path(__file__).resolve()
RUN = [sys.executable, "-m", "clump", "run"]
HELLO = "import clump; w = clump.world(); w.barrier(); print(w.rank)"


def rounds_of(run, count=1, before=lambda: None):
    """Returns the median of seconds of a call."""
    times = []
    for _ in range(ROUNDS):
        before()
        began = time.perf_counter()
        for _ in range(count):
            run()
        times.append((time.perf_counter() - began) / count)
    return statistics.median(times)


def pingpong(rank, send, recv, count):
    """Returns seconds of a round trip of a small object, and of 1 MiB, between two ranks."""
    import numpy as np

    peer, first = rank ^ 1, rank % 2 == 0
    values = {"object": ({f"field{i}": i for i in range(8)}, count)}
    values["array"] = (np.zeros(1 << 17), max(1, count // 10))
    found = {}
    for name, (value, times) in values.items():

        def turn(value=value):
            if first:
                send(value, peer)
                recv(peer)
            else:
                send(recv(peer), peer)

        turn()
        found[name] = rounds_of(turn, times)
    return found


def tasks(executor):
    """Returns the rate of tasks, and the time of one."""
    rate = 5000 / rounds_of(lambda: list(executor.map(abs, range(5000), chunksize=1)))
    return {"tasks/s": rate, "first result": rounds_of(lambda: executor.submit(abs, -1).result(), 20)}


def clump_messages(count):
    import clump

    w = clump.world()
    found = pingpong(w.rank, w.send, w.recv, count)
    if w.rank == 0:
        print(json.dumps(found))


def mpi_messages(count):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    found = pingpong(comm.rank, comm.send, lambda source: comm.recv(source=source), count)
    if comm.rank == 0:
        print(json.dumps(found))


def elements():
    import numpy as np

    import clump

    w = clump.world()
    table = clump.zeros(1 << 20, "i8", spread="cyclic")
    indexes = np.random.default_rng(w.rank).integers(0, table.size, 10**6)
    out = np.zeros(10**6, "i8")
    near = int(table.local_indexes()[0])
    w.barrier()
    nothing = rounds_of(lambda: None, 100_000)
    found = {
        "add of 1 M": rounds_of(lambda: table.add(indexes, 1), before=w.barrier),
        "gather of 1 M": rounds_of(lambda: table.gather(indexes, out=out), before=w.barrier),
        "scatter of 1 M": rounds_of(lambda: table.__setitem__(indexes, out), before=w.barrier),
        "scalar read": rounds_of(lambda: table[near], 100_000, w.barrier) - nothing,
        "scalar add": rounds_of(lambda: table.add(near, 1), 100_000, w.barrier) - nothing,
    }
    w.barrier()
    if w.rank == 0:
        print(json.dumps(found))


def clump_tasks():
    import clump

    with clump.Executor(2) as executor:
        list(executor.map(abs, range(100), chunksize=1))
        print(json.dumps(tasks(executor)))


def mpi_tasks():
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        list(executor.map(abs, range(100)))
        print(json.dumps(tasks(executor)))


PARTS = {
    "clump-messages": clump_messages,
    "mpi-messages": mpi_messages,
    "elements": elements,
    "clump-tasks": clump_tasks,
    "mpi-tasks": mpi_tasks,
}


def job(command):
    """Runs a part; returns what it has found."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{command} failed:\n{done.stdout}\n{done.stderr}")
    return json.loads(lines[-1])


def in_turns(commands, turns=3):
    """Runs commands in turns; returns the medians of what each has found."""
    found = {name: [] for name in commands}
    for _ in range(turns):
        for name, command in commands.items():
            found[name].append(job(command))
    return {
        name: {key: statistics.median(one[key] for one in all) for key in all[0]}
        for name, all in found.items()
    }


def imports(module):
    """Returns seconds that an interpreter takes longer with an import."""
    times = {"pass": [], f"import {module}": []}
    for _ in range(15):
        for code, rounds in times.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            rounds.append(time.perf_counter() - began)
    plain, loaded = (statistics.median(rounds) for rounds in times.values())
    return loaded - plain


def ends(code, act=None):
    """Returns seconds from the last line that a rank writes, and from `act` on the job, to its end."""
    times = []
    for _ in range(ROUNDS):
        command = [*RUN, "-n", "4", "-c", code]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        ) as started:
            lines = [started.stdout.readline() for _ in range(4)]
            assert all(lines), lines
            began = time.perf_counter()
            if act is not None:
                act(started)
            started.wait(60)
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def interrupted():
    """Returns seconds from Ctrl-C until the last of 4 ranks has raised KeyboardInterrupt."""
    times = []
    code = (
        "import clump, time\nw = clump.world()\nprint('ready', flush=True)\n"
        "try: w.recv()\nexcept KeyboardInterrupt: print(time.time(), flush=True); raise\n"
    )
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [*RUN, "-n", "4", "-c", code],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        ) as started:
            for _ in range(4):
                assert started.stdout.readline() == "ready\n"
            began = time.time()
            started.send_signal(signal.SIGINT)
            raised = [float(line) for line in started.stdout]
            assert len(raised) == 4, raised
            times.append(max(raised) - began)
    return statistics.median(times)


def installation(wheel):
    """Returns seconds of an installation with NumPy into a new environment, and of a first job."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        own = os.path.join(folder, "bin", "python")
        install = [own, "-m", "pip", "install", "--quiet", f"{wheel}[numpy]"]
        subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
        subprocess.run([own, "-m", "clump", "run", "-n", "4", "-c", HELLO], check=True, capture_output=True)
        return time.perf_counter() - began


def suite(n):
    """Returns seconds of a test program at so many ranks."""
    program = HERE.parent.parent / "tests" / "programs" / "collectives.py"
    began = time.perf_counter()
    subprocess.run([*RUN, "-n", str(n), str(program)], check=True, capture_output=True)
    return time.perf_counter() - began


def bare(n):
    """Returns seconds of so many interpreters that import NumPy at once, and end."""
    began = time.perf_counter()
    started = [subprocess.Popen([sys.executable, "-c", "import numpy"]) for _ in range(n)]
    assert not any(each.wait() for each in started)
    return time.perf_counter() - began


class Report:
    """Rows of figures beside goals."""

    def __init__(self):
        self.rows = []

    def add(self, what, value, unit, *, peer=None, ratio=None, goal=None, met=None):
        self.rows.append(
            {"what": what, "value": value, "unit": unit, "peer": peer, "ratio": ratio, "goal": goal, "met": met}
        )
        parts = [f"{what:44} {value:10.4g} {unit}"]
        if peer is not None:
            parts.append(f"beside {peer:.4g}")
        if ratio is not None:
            parts.append(f"ratio {ratio:.2f}")
        if goal is not None:
            parts.append(f"goal {goal}: {'met' if met else 'missed'}")
        print("  ".join(parts), flush=True)


def compare_elements(report, rust):
    part = [*RUN, "-n", "2", str(HERE), "--part", "elements"]
    found = in_turns({"python": part, "rust": [*RUN, "-n", "2", rust]})
    for name, mine in found["python"].items():
        theirs = found["rust"][name]
        if name.startswith("scalar"):
            more = (mine - theirs) * 1e9
            report.add(f"{name}, over Rust", more, "ns", goal="<= 300 ns", met=more <= 300)
        else:
            ratio = mine / theirs
            report.add(
                f"{name} indexes", mine * 1e3, "ms", peer=theirs * 1e3, ratio=ratio, goal="<= 1.1", met=ratio <= 1.1
            )


def compare_mpi(report, mpirun):
    for n, count, goal in ((2, 2000, 1.5), (16, 100, 5)):
        mine = [*RUN, "-n", str(n), str(HERE), "--count", str(count), "--part", "clump-messages"]
        theirs = [*mpirun, "-n", str(n), sys.executable, str(HERE), "--count", str(count), "--part", "mpi-messages"]
        found = in_turns({"clump": mine, "mpi4py": theirs})
        for name, seconds in found["clump"].items():
            ratio = found["mpi4py"][name] / seconds
            report.add(
                f"round trip of an {name}, {n} ranks", seconds * 1e6, "us",
                peer=found["mpi4py"][name] * 1e6, ratio=ratio, goal=f">= {goal}", met=ratio >= goal,
            )
    mine = [sys.executable, str(HERE), "--part", "clump-tasks"]
    theirs = [*mpirun, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(HERE), "--part", "mpi-tasks"]
    found = in_turns({"clump": mine, "mpi4py": theirs})
    rate, other = found["clump"]["tasks/s"], found["mpi4py"]["tasks/s"]
    report.add("tasks of an Executor", rate, "1/s", peer=other, ratio=rate / other, goal=">= 2", met=rate >= 2 * other)
    first = found["clump"]["first result"] * 1e3
    report.add(
        "first result", first, "ms", peer=found["mpi4py"]["first result"] * 1e3, goal="< 1 ms", met=first < 1
    )


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--elements", help="the example `elements`, built by cargo")
    options.add_argument("--wheel", help="the wheel, whose installation is timed")
    options.add_argument("--json", help="a file for the rows")
    options.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.part:
        PARTS[given.part](*([given.count] if given.part.endswith("messages") else []))
        return
    report = Report()
    if given.wheel:
        size = os.path.getsize(given.wheel) / 1e6
        report.add("wheel", size, "MB", goal="< 15 MB", met=size < 15)
        seconds = installation(given.wheel)
        report.add("environment, pip install, hello of 4 ranks", seconds, "s", goal="< 60 s", met=seconds < 60)
    taken = imports("clump") * 1e3
    report.add("import clump", taken, "ms", goal="< 50 ms", met=taken < 50)
    if given.elements:
        compare_elements(report, given.elements)
    mpirun = shutil.which("mpirun", path=os.path.dirname(sys.executable)) or shutil.which("mpirun")
    if mpirun and importlib.util.find_spec("mpi4py"):
        compare_mpi(report, [mpirun, "--allow-run-as-root", "--oversubscribe"])
    else:
        print("without mpi4py and mpirun, messages and tasks are not compared")
    fails = ends("import clump, os; w = clump.world(); print(w.rank, flush=True)\nif w.rank == 1: 1 / 0\nw.recv()")
    report.add("exception to the end of the job", fails, "s", goal="< 1 s", met=fails < 1)
    raised = interrupted() * 1e3
    report.add("Ctrl-C to KeyboardInterrupt of 4 ranks", raised, "ms", goal="<= 100 ms", met=raised <= 100)
    few, many = (statistics.median(suite(n) for _ in range(3)) for n in (2, 16))
    report.add(
        "collectives.py, 16 ranks beside 2", many, "s", peer=few, ratio=many / few, goal="<= 1.5", met=many <= 1.5 * few
    )
    few, many = (statistics.median(bare(n) for _ in range(3)) for n in (2, 16))
    report.add("import numpy, 16 interpreters beside 2", many, "s", peer=few, ratio=many / few)
    if given.json:
        pathlib.Path(given.json).write_text(json.dumps(report.rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
