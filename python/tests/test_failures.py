"""Failures of one rank: each is reported with its rank, the job ends, and no other rank hangs."""

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import ended, start

BEGIN = """
import clump, numpy as np, os, signal, sys, threading
w = clump.world()
t = clump.zeros(1000, 'i8', 'cyclic')
lock = clump.Lock()
@clump.handler
def f(x): return x
def victim(): raise ValueError('boom')
class Bad:
    def __reduce__(self): victim()
def bad_op(a, b): victim()
w.barrier()
print('here', w.rank, flush=True)
"""

#: Places where rank 1 fails, and where the others wait then.
PLACES = {
    "plain": ("victim()", "w.barrier()"),
    "before a receive": ("victim()", "w.recv(1)"),
    "while others reduce": ("victim()", "w.allreduce(np.ones(9))"),
    "while others gather elements": ("victim()", "[t[np.arange(1000)] for _ in range(10**6)]"),
    "while others add": ("victim()", "[t.add(np.arange(1000), 1) or w.sync() for _ in range(10**6)]"),
    "while others call": ("victim()", "[clump.call(f, 1, 2) for _ in range(10**6)]"),
    "with a lock": (
        "lock.acquire(); [w.send(0, rank) for rank in (0, 2, 3)]; victim()",
        "w.recv(1); lock.acquire(); w.barrier()",
    ),
    "in a thread's shadow": (
        "threading.Thread(target=w.recv).start(); victim()",
        "w.recv(1)",
    ),
    "pickling in a broadcast": ("w.bcast(Bad(), 1)", "w.bcast(None, 1); w.barrier()"),
    "pickling in a gather": ("w.allgather(Bad())", "w.allgather(1); w.barrier()"),
    "a reduction function": ("w.reduce(1, bad_op, 1); w.barrier()", "w.reduce(1, bad_op, 1); w.barrier()"),
    "exit code 3": ("sys.exit(3)", "w.barrier()"),
}


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("place", PLACES)
def test_an_exception_of_one_rank_ends_the_job(run, place, nodes):
    fails, waits = PLACES[place]
    body = "".join(f"    {part.strip()}\n" for part in fails.split(";"))
    rest = "".join(f"    {part.strip()}\n" for part in waits.split(";"))
    job = run(f"{BEGIN}if w.rank == 1:\n{body}else:\n{rest}", n=4, nodes=nodes, good=False, seconds=20)
    assert job.code == (3 if place == "exit code 3" else 1), job
    if place != "exit code 3":
        assert "rank 1 of 4 fails" in job.err and "boom" in job.err, job
        assert "<frozen runpy>" not in job.err, job


def test_the_others_end_with_one_line_each(run):
    job = run(BEGIN + "if w.rank == 1: victim()\nw.recv(1)\n", n=4, good=False, seconds=20)
    lines = [line for line in job.err.splitlines() if " of 4 ends (" in line]
    assert len(lines) == 3 and all("rank 1" in line for line in lines), job


WAITS = {
    "recv": "w.recv()",
    "barrier": "w.rank == 0 or w.barrier()\nw.recv()",
    "reduce": "w.rank == 0 or w.allreduce(np.ones(9))\nw.recv()",
    "lock": "w.rank or lock.acquire()\nw.rank or w.send(0, 1)\nw.recv(0, timeout=99)\nlock.acquire()",
    # A call that rank 0 answers while it leaves the barrier before is not the one that waits.
    "call": "w.rank == 0 and signal.pause()\nwhile True: clump.call(f, 0, 1)",
    "gather": "while True: t[np.arange(1000)]",
    "serve": "w.serve(100)",
    "free": "w.rank == 0 or t.free()\nw.recv()",
    "endpoint": "ep.wait()",
    "await": "import asyncio\nasyncio.run(w.arrival())",
    "barrier of the heap": "w.rank == 0 or svm.barrier()\nw.recv()",
}


#: Waits that another begins as soon as they are over.
BUSY = ("call", "gather")


def sleeps(pid):
    """Returns true if the main thread of a process sleeps."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("place", WAITS)
def test_an_interrupt_ends_every_wait(tmp_path, place):
    # A rank that ended before the other is interrupted would be another reason to end.
    script = tmp_path / "waits.py"
    script.write_text(
        BEGIN + "from clump import svm\nsvm.empty(9)\nep = clump.Endpoint()\n"
        "try:\n    print('pid', w.rank, os.getpid(), flush=True)\n"
        "    exec(" + repr(WAITS[place]) + ")\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', w.rank, flush=True)\n"
        "    open(f'interrupted-{w.rank}', 'w').close()\n"
        "    while not all(os.path.exists(f'interrupted-{rank}') for rank in range(2)): pass\n"
        "    os._exit(0)\n"
    )
    job = start(script, n=2, env={"PYTHONUNBUFFERED": "1"}, cwd=tmp_path)
    pids = {}
    while len(pids) < 2:
        line = job.stdout.readline()
        assert line, ended(job)
        if line.startswith("pid"):
            _, rank, pid = line.split()
            pids[int(rank)] = int(pid)
    # Interrupted before it waits, a rank would show nothing.
    while place not in BUSY and not all(sleeps(pid) for pid in pids.values()):
        assert job.poll() is None, ended(job)
    for pid in pids.values():
        os.kill(pid, signal.SIGINT)
    began = time.monotonic()
    last = ended(job, 20)
    assert last.out.count("interrupted") == 2, last
    assert time.monotonic() - began < 15


def test_a_limit_ends_every_wait(run):
    body = """
if w.rank == 0:
    for call in (lambda: w.recv(timeout=0.02), lambda: clump.start(f, 1, 1).wait(timeout=0.02),
                 lambda: w.barrier(timeout=0.02)):
        try: call()
        except clump.ClumpTimeout as error: print('ended:', error, flush=True)
    open('done', 'w').close()
    os._exit(0)
while not os.path.exists('done'): pass
os._exit(0)
"""
    assert run(BEGIN + body, n=2, good=False).out.count("ended:") == 3


def test_a_wait_for_updates_that_was_given_up_is_made_by_the_next_call(run):
    body = """
i = int(np.flatnonzero([t.owner(i) != w.rank for i in range(10)])[0])
t.add(i, 1)
for _ in range(2):
    for call in (lambda: w.sync(timeout=0.001), lambda: t.gather([i], timeout=0.001),
                 lambda: w.barrier(timeout=0.001) if w.rank == 9 else w.sync(timeout=0.001)):
        try: call()
        except clump.ClumpTimeout as error: print('ended', error.op, flush=True)
assert lock.acquire(timeout=0.001) is False
w.sync()
assert lock.acquire(timeout=99)
lock.release()
w.barrier()
assert t[i] >= 1
print('right')
"""
    # A message of 200 ms: no limit of a millisecond can be kept.
    job = run(BEGIN + body, n=2, nodes=2, options=("--emu", "L=+200ms"))
    assert job.out.count("ended sync") == 8 and job.out.count("ended gather") == 4, job
    assert job.out.count("right") == 2, job


HANDLERS = """
import clump, os, signal, sys, threading
w = clump.world()
ep = clump.Endpoint()
dests = [ep.map(name) for name in w.allgather(ep.name)]
@ep.handler(1)
def boom(token, words, payload): raise ValueError('boom')
@ep.handler(2)
def stop(token, words, payload): raise KeyboardInterrupt
@clump.handler
def exits(): sys.exit(3)
@clump.handler
def interrupted(): raise KeyboardInterrupt
w.barrier()
"""

#: What rank 0 does to rank 1, and the exit code of the job.
IN_HANDLERS = {
    "a handler raises": ("ep.request(dests[1], 1)", "w.recv(0)", 1),
    "a handler raises at the end": ("ep.request(dests[1], 1); w.send(1, 1)", "w.recv(0)", 1),
    "a handler raises in a barrier": ("ep.request(dests[1], 1)", "w.barrier()", 1),
    "a handler is interrupted": ("ep.request(dests[1], 2)", "w.recv(0)", 130),
    "a call exits": ("clump.start(exits, 1)", "w.recv(0)", 3),
    "a call is interrupted": ("clump.start(interrupted, 1)", "w.recv(0)", 130),
}


@pytest.mark.parametrize("place", IN_HANDLERS)
def test_what_a_handler_raises_ends_its_rank_and_nobody_hangs(run, place):
    does, waits, code = IN_HANDLERS[place]
    body = f"if w.rank == 0:\n    {does}\n    w.barrier()\n    w.recv(1)\n{waits}\n"
    job = run(HANDLERS + body, n=2, good=False, seconds=20)
    assert job.code == code, job
    if code == 1:
        assert "rank 1 of 2 fails" in job.err and "ValueError: boom" in job.err, job


def test_a_caller_hears_that_its_call_has_ended_the_rank(run):
    body = """
if w.rank == 0:
    w.recv(1)
    try: clump.call(exits, 1)
    except clump.RemoteError as error: print('heard', type(error.__cause__).__name__, flush=True)
else:
    try:
        w.send('the barrier is behind me', 0)
        w.recv(0)
    except SystemExit as error: print('exits', error.code, flush=True)
w.barrier()
"""
    job = run(HANDLERS + body, n=2, seconds=20)
    assert sorted(job.out.split()) == ["3", "SystemExit", "exits", "heard"], job


def test_an_exception_of_a_thread_names_its_rank(run):
    body = "threading.Thread(target=lambda: 1 / 0).start()\nw.barrier()\n"
    job = run(HANDLERS + body, n=2, seconds=20)
    assert job.err.count("a thread of rank") == 2 and job.err.count("ZeroDivisionError") == 2, job


def test_a_wait_is_interrupted_whichever_thread_imported_clump(run):
    body = """
import importlib, signal, sys, threading
thread = threading.Thread(target=importlib.import_module, args=('clump',)); thread.start(); thread.join()
w = sys.modules['clump'].world()
threading.Timer(0.05, lambda: signal.raise_signal(signal.SIGINT)).start()
try: w.recv(timeout=30)
except KeyboardInterrupt: print('interrupted', flush=True)
"""
    assert run(body, n=1).out.split() == ["interrupted"]


def test_a_child_by_fork_is_refused(run):
    body = """
pid = os.fork()
if pid == 0:
    for call in (clump.world, w.barrier, lambda: w.send(1, 0), lambda: clump.zeros(3)):
        try: call()
        except clump.ForkedError as error: print('refused', flush=True)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
import subprocess, uuid, multiprocessing
assert subprocess.run(['true']).returncode == 0
uuid.uuid1()
for method in ('fork', 'spawn', 'forkserver'):
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
w.barrier()
print('ok')
"""
    guarded = "if __name__ == '__main__':\n" + "".join(f"    {x}\n" for x in (BEGIN + body).splitlines())
    job = run(guarded, n=2)
    assert job.out.count("ok") == 2 and job.out.count("refused") == 8, job


def test_threads_other_than_the_first_send_and_receive(run):
    body = """
out = []
def other():
    try: t[0]
    except clump.ThreadError: out.append('refused')
    w.send('from a thread', w.rank, 5)
    out.append(w.recv(w.rank, 5))
thread = threading.Thread(target=other); thread.start(); thread.join()
assert out == ['refused', 'from a thread'], out
stop = []
def storm():
    while not stop: clump.call(f, 1 - w.rank, 'x')
thread = threading.Thread(target=storm); thread.start()
for i in range(300): t.add(np.arange(1000), 1); t[np.arange(1000)]
stop.append(1)
while thread.is_alive(): w.serve(0.01)
ended = [w.send('end', 1 - w.rank, 9), w.recv(1 - w.rank, 9)]
w.barrier()
print('ok', flush=True)
"""
    for nodes in (1, 2):
        assert run(BEGIN + body, n=2, nodes=nodes, seconds=60).out.count("ok") == 2


def test_alone_a_process_is_a_job_of_one_rank():
    code = "import clump; w = clump.world(); w.barrier(); print(w.rank, w.size, w.allreduce(3))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout.split() == ["0", "1", "3"] and not done.stderr, done


STORM = """
import clump, sys, threading
w = clump.world()
@clump.handler
def double(x): return 2 * x
failed = []
def storm(first):
    try:
        for i in range(int(sys.argv[1])):
            rank = (w.rank + 1 + (first + i) % (w.size - 1)) % w.size
            assert clump.call(double, rank, i) == 2 * i
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=storm, args=(k,)) for k in range(2)]
for thread in threads: thread.start()
# The first thread computes, handles calls now and then, and waits meanwhile.
while any(thread.is_alive() for thread in threads):
    sum(range(1000)); w.poll()
for thread in threads: thread.join()
w.barrier()
assert not failed, failed
print('right')
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_threads_that_call_and_serve_do_not_wait_for_each_other(run, nodes):
    calls = 20_000 if os.environ.get("CLUMP_TEST_TIER") == "night" else 500
    job = run(STORM, calls, n=3, nodes=nodes, seconds=200)
    assert job.out.count("right") == 3, job
