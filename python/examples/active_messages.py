"""Active messages: a table in parts at all ranks, whose words are counted where they are."""

import collections
import random

import clump

w = clump.world()
ep = clump.Endpoint()
dests = [ep.map(name) for name in w.allgather(ep.name)]
counts, answers = collections.Counter(), {}


@ep.handler(1)
def count(token, words, payload):
    counts[bytes(payload)] += 1


@ep.handler(2)
def ask(token, words, payload):
    token.reply(3, counts[bytes(payload)], payload=payload)


@ep.handler(3)
def answer(token, words, payload):
    answers[bytes(payload)] = words[0]


def home(word):
    return dests[sum(word) % w.size]


w.barrier()
text = random.Random(w.rank).choices([b"to", b"be", b"or", b"not"], k=1000)
for word in text:
    ep.request(home(word), 1, payload=word)
ep.drain()
w.barrier()
for word in set(text):
    ep.request(home(word), 2, payload=word)
ep.wait(until=lambda: len(answers) == len(set(text)))
if w.rank == 0:
    assert sum(answers.values()) == 1000 * w.size
    print("right:", {word.decode(): n for word, n in sorted(answers.items())})
w.barrier()
