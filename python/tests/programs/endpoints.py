"""Active messages: replies, payloads, order, returned messages, failures, threads."""

import threading

import clump
import numpy as np

w = clump.world()
after = (w.rank + 1) % w.size
ep = clump.Endpoint(tag=7)
names = w.allgather(ep.name)
dests = [ep.map(name, 7) for name in names]
answers, seen, returned = [], [], []


@ep.handler(1)
def square(token, words, payload):
    assert 0 <= token.rank < w.size and token.source == names[token.rank]
    token.reply(2, words[0], words[0] ** 2, payload=payload)


@ep.handler(2)
def take(token, words, payload):
    answers.append((token.rank, words, bytes(payload)))


@ep.on_returned
def back(rank, reason, is_reply, number, words, payload):
    returned.append((rank, reason, is_reply, number, words, bytes(payload)))


w.barrier()
# Every rank asks every rank.
for round_ in range(50):
    for rank, dest in enumerate(dests):
        ep.request(dest, 1, round_, payload=b"x" * round_)
ep.wait(until=lambda: len(answers) == 50 * w.size, timeout=60)
want = sorted((rank, (n, n * n), b"x" * n) for n in range(50) for rank in range(w.size))
assert sorted(answers) == want
w.barrier()

# Words and payloads arrive as they were sent, up to the largest.
words = (0, 1, 2**63, 2**64 - 1, 5, 6, 7, 8)
large = np.random.default_rng(w.rank).integers(0, 256, ep.max_payload, dtype="u1")


@ep.handler(3)
def keep(token, words, payload):
    seen.append((token.rank, words, bytes(payload)))


w.barrier()
ep.request(dests[after], 3, *words, payload=large)
ep.request(dests[after], 3)
ep.wait(until=lambda: len(seen) == 2, timeout=60)
before = (w.rank - 1) % w.size
theirs = np.random.default_rng(before).integers(0, 256, ep.max_payload, dtype="u1")
assert sorted(seen, key=lambda one: len(one[1])) == [
    (before, (), b""),
    (before, words, theirs.tobytes()),
]
w.barrier()

# An ordered destination keeps the order, also over nodes that lose packets.
ordered = ep.map(names[after], 7, ordered=True)
order = []


@ep.handler(4)
def note(token, words, payload):
    order.append(words[0])


w.barrier()
for n in range(300):
    ep.request(ordered, 4, n)
ep.wait(until=lambda: len(order) == 300, timeout=60)
assert order == list(range(300))

# Requests of handlers go around the ring.
laps = []


@ep.handler(5)
def go_on(token, words, payload):
    laps.append(words[0])
    if words[0] > 0:
        token.request(dests[after], 5, words[0] - 1, payload=payload)


w.barrier()
if w.rank == 0:
    ep.request(dests[after], 5, 3 * w.size, payload=b"around")
w.barrier()
ep.drain(timeout=60)
total = 0
while total < 3 * w.size + 1:
    w.poll()
    total = w.allreduce(len(laps))
assert total == 3 * w.size + 1, total

# Messages that cannot be delivered come back.
ep.request(dests[after], 99, 1, 2, payload=b"lost")
ep.wait(until=lambda: returned, timeout=60)
rank, reason, is_reply, number, back_words, payload = returned.pop()
assert (rank, is_reply, number, back_words, payload) == (after, False, 99, (1, 2), b"lost"), reason
wrong = ep.map(names[after], 8)
ep.request(wrong, 1, 1)
ep.wait(until=lambda: returned, timeout=60)
assert "tag" in returned.pop()[1].lower()


# What a handler raises, the next call of its endpoint raises; what it may not do is refused.
def raised(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


me = ep.map(ep.name, 7)
kept = []


@ep.handler(6)
def fails(token, words, payload):
    kept.append(token)
    if words[0] == 0:
        raise KeyError("boom")
    if words[0] == 1:
        w.barrier()
    if words[0] == 2:
        token.reply(2, 0, 0)
        token.reply(2, 0, 0)
    ep.request(me, 1, 1)


def fail_with(n):
    ep.request(me, 6, n)
    ep.wait(timeout=60)


assert "boom" in raised(KeyError, lambda: fail_with(0))
assert "may not wait" in raised(clump.HandlerError, lambda: fail_with(1))
assert "once" in raised(clump.HandlerError, lambda: fail_with(2))
assert "may not wait" in raised(clump.HandlerError, lambda: fail_with(3))
assert "while its handler runs" in raised(clump.HandlerError, lambda: kept[0].reply(2, 1))
raised(ValueError, lambda: ep.request(me, 0, 1))
raised(clump.ClumpError, lambda: ep.request(me, 1, *range(9)))
raised(clump.ClumpError, lambda: ep.request(me, 1, payload=bytes(ep.max_payload + 1)))
raised(OverflowError, lambda: ep.request(me, 1, -1))
raised(clump.ClumpTimeout, lambda: ep.wait(until=lambda: False, timeout=0.05))
w.barrier()

# Threads may share an endpoint, and collectives go on meanwhile.
answers.clear()


def ask():
    for n in range(40):
        ep.request(dests[after], 1, n)


threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
w.allreduce(1)
for thread in threads:
    thread.join()
ep.wait(until=lambda: len(answers) == 120, timeout=60)
assert sorted(words for _, words, _ in answers) == sorted(3 * [(n, n * n) for n in range(40)])
w.barrier()

# A closed endpoint takes nothing more, and says so.
ep.close()
assert "closed" in raised(clump.ClumpError, ep.poll)
with w.phase("a phase") as phase:
    pass
assert phase.seconds >= 0.0
w.barrier()
print("ok")
