"""What is created and freed, or given back, leaves nothing: mappings, descriptors, memory."""

import os

#: Rounds of creating and freeing.
ROUNDS = {"night": 10_000}.get(os.environ.get("CLUMP_TEST_TIER"), 500)

PROGRAM = """
import os, sys
import clump, numpy as np

w = clump.world()
rounds = int(sys.argv[1])


def here():
    lines = open('/proc/self/maps').read().count('\\n')
    status = open('/proc/self/status').read().split()
    return lines, len(os.listdir('/proc/self/fd')), int(status[status.index('VmRSS:') + 1])


def one():
    with clump.zeros(5000) as g:
        g.add([1, 2], 1.0)
        view = g.local
        w.allreduce(view.sum())
        del view
    w.send({'a': np.arange(10)}, (w.rank + 1) % w.size)
    w.recv()


for _ in range(100):
    one()
before = here()
for _ in range(rounds):
    one()
maps, files, kib = (after - first for after, first in zip(here(), before))
assert maps < 20 and files == 0, (maps, files)
assert kib < 8192, f'{kib} KiB more'
print('right')
"""

OTHERS = """
import os, sys
import clump, numpy as np

w = clump.world()
after = (w.rank + 1) % w.size

@clump.handler
def double(x): return 2 * x

def here():
    lines = open('/proc/self/maps').read().count('\\n')
    status = open('/proc/self/status').read().split()
    return lines, len(os.listdir('/proc/self/fd')), int(status[status.index('VmRSS:') + 1])

def one():
    assert clump.call(double, after, np.arange(100))[1] == 2
    clump.start(double, after, np.zeros(1000))  # nobody waits for it
    d = clump.Dict()
    d[w.rank] = np.zeros(100)
    w.barrier()
    assert len(d) == w.size
    d.free()
    team = w.split(w.rank % 2)
    team.allreduce(1)
    with clump.Endpoint() as ep:
        ep.handler(1)(lambda token, words, payload: ep)
        ep.request(ep.map(ep.name), 1, payload=b'x' * 100)
        ep.drain()

for _ in range(50):
    one()
before = here()
for _ in range(int(sys.argv[1]) // 10):
    one()
w.barrier()
maps, files, kib = (after - first for after, first in zip(here(), before))
assert maps < 30 and files == 0, (maps, files)
assert kib < 8192, f'{kib} KiB more'
print('right')
"""

LOCKS = """
import clump
w = clump.world()
lines = lambda: open('/proc/self/maps').read().count('\\n')
first = [clump.Lock() for _ in range(w.size)]
before = lines()
locks = [clump.Lock() for _ in range(200)]
for lock in locks[w.rank::w.size]:
    with lock: pass
w.barrier()
assert lines() - before < 20, lines() - before
print('right')
"""


def test_arrays_and_messages_leave_nothing(run):
    for nodes in (1, 2):
        job = run(PROGRAM, ROUNDS, n=2, nodes=nodes, seconds=400)
        assert job.out.count("right") == 2, job


def test_calls_dictionaries_teams_and_endpoints_leave_nothing(run):
    for nodes in (1, 2):
        job = run(OTHERS, ROUNDS, n=2, nodes=nodes, seconds=400)
        assert job.out.count("right") == 2, job


def test_locks_are_mapped_once_for_each_home(run):
    for nodes in (1, 2):
        job = run(LOCKS, n=4, nodes=nodes)
        assert job.out.count("right") == 4, job
