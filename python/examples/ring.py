"""A ring of messages: an array goes around all ranks, and each adds to it."""

import numpy as np

import clump

w = clump.world()
after, before = (w.rank + 1) % w.size, (w.rank - 1) % w.size
if w.rank == 0:
    w.send(np.zeros(1000), after)
    array = w.recv(before)
    assert (array == sum(range(w.size))).all()
    print("right: around", w.size, "ranks")
else:
    w.send(w.recv(before) + w.rank, after)
