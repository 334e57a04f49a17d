"""Random orders of making arrays, showing, deleting and freeing them, up to the end of the process."""

import gc
import random
import sys

import clump
import numpy as np

w = clump.world()
seed, orders = (int(word) for word in [*sys.argv[1:], 1, 40][:2])
#: Views that outlive their arrays, up to the end of the process.
kept = []


forgotten = 0
TYPES, SPREADS = ["i8", "f4", "u1"], ["block", "cyclic"]
ACTS = ["make", "make", "view", "view", "slice", "write", "drop", "free", "forget", "collect"]


def one(rng):
    global forgotten
    arrays, views = [], []
    for step in range(rng.randrange(4, 24)):
        act = rng.choice(ACTS)
        if act == "make" and len(arrays) < 6:
            arrays.append(clump.zeros(rng.randrange(1, 5000), rng.choice(TYPES), rng.choice(SPREADS)))
        elif act == "view" and arrays:
            views.append(rng.choice(arrays).local)
        elif act == "slice" and views:
            views.append(rng.choice(views)[:: rng.randrange(1, 4)])
        elif act == "write" and views:
            view = rng.choice(views)
            view[:] = step
            assert (view == step).all()
            del view
        elif act == "drop" and views:
            views.pop(rng.randrange(len(views)))
        elif act == "free" and arrays:
            array = arrays.pop(rng.randrange(len(arrays)))
            try:
                array.free()
            except BufferError:
                assert views
                arrays.append(array)
        elif act == "forget" and arrays and forgotten < 30:
            # Its memory stays to the end, and a rank has 64 of them at most.
            arrays.pop(rng.randrange(len(arrays)))
            forgotten += 1
        elif act == "collect":
            gc.collect()
    if forgotten < 30 and rng.randrange(4) == 0:
        kept.extend(views)
        forgotten += len(arrays)
        return
    views.clear()
    for array in arrays:
        array.free()


for order in range(orders):
    one(random.Random(f"{seed} {order}"))
for view in kept:
    assert view.size == 0 or view.sum() >= 0
print("ok", flush=True)
