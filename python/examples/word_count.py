"""Words of a text, counted in a dictionary over all ranks."""

import collections

import clump

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps " * 50

w = clump.world()
counts = clump.Dict()
words = TEXT.split()[w.rank :: w.size]
for word, count in collections.Counter(words).items():
    counts.add(word, count)
w.barrier()

if w.rank == 0:
    expected = collections.Counter(TEXT.split())
    found = counts.get_many(expected)
    assert found == list(expected.values())
    print("right:", dict(zip(expected, found)))
w.barrier()
