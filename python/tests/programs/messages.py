"""Objects and arrays between ranks, remote calls, the dictionary, locks."""

import pickle

import clump
import numpy as np

w = clump.world()
after, before = (w.rank + 1) % w.size, (w.rank - 1) % w.size

values = [
    1,
    "abc",
    {"k": [1, 2]},
    b"",
    np.arange(10),
    np.random.default_rng(7).random(1 << 18),
    np.zeros((0, 3)),
    np.arange(24).reshape(2, 3, 4)[:, ::2],
    np.arange(5, dtype=">i4"),
    np.zeros(4, [("a", "i4"), ("b", "f8")]),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
]
for value in values:
    w.send(value, after, 7)
for value in values:
    got = w.recv(before, 7)
    if isinstance(value, np.ndarray):
        assert got.dtype == value.dtype and got.shape == value.shape and (got == value).all()
        assert got.flags.writeable
    else:
        assert got == value

frozen = np.arange(100_000)
frozen.flags.writeable = False
w.send(frozen, after)
assert (w.recv(before) == frozen).all()

for i in range(20):
    w.send(i, after, i % 3)
assert [w.recv(before, 1) for _ in range(7)] == [1, 4, 7, 10, 13, 16, 19]
assert w.recv_from(before, 2)[0] == 2
rest = [w.recv(before) for _ in range(12)]
assert rest == [0, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
assert w.probe() is None
try:
    w.recv(before, timeout=0.05)
except clump.ClumpTimeout as error:
    assert isinstance(error, TimeoutError)
else:
    raise AssertionError("nothing was sent")


@clump.handler
def double(x):
    return 2 * x


@clump.handler
def bad(x):
    raise KeyError(x)


@clump.handler
def unsendable():
    return lambda: None


@clump.handler
def waits():
    w.barrier()


assert clump.call(double, after, 21) == 42
assert (clump.call(double, after, np.arange(50_000)) == 2 * np.arange(50_000)).all()
begun = [clump.start(double, rank, rank) for rank in range(w.size)]
assert [call.wait() for call in begun] == [2 * rank for rank in range(w.size)]
for function, words, cause in ((bad, ("q",), "KeyError"), (unsendable, (), "local object"), (waits, (), "may not wait")):
    try:
        clump.call(function, after, *words)
    except clump.RemoteError as error:
        assert cause in str(error) and error.rank == after, error
    else:
        raise AssertionError(function)


# An exception that cannot be read here is one all the same, with the traceback, as often as wanted.
class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one)


@clump.handler
def odd():
    raise Odd(1, 2)


begun = clump.start(odd, after)
for _ in range(2):
    try:
        begun.wait()
    except clump.RemoteError as error:
        assert "in odd" in str(error) and "Odd: 1" in str(error), error
    else:
        raise AssertionError("odd")

# Answers that nobody waits for are dropped when they come.
for _ in range(50):
    clump.start(double, after, 1)
assert clump.call(double, after, 1) == 2
assert not clump._native.has_answer(begun._number + 1)

# A cell that is executed again replaces its functions.
for factor in (1, 3):
    cell = f"@clump.handler\ndef cell(x): return {factor} * x\n"
    exec(compile(cell, "<cell>", "exec"))
w.barrier()
assert clump.call("cell", after, 5) == 15
w.barrier()
try:
    clump.call(print, after)
except ValueError as error:
    assert "not registered" in str(error)

d = clump.Dict()
d["k", w.rank] = w.rank
d.add("n")
w.barrier()
assert d["n"] == w.size and d["k", after] == after and ("k", 99) not in d
assert d.get_many([("k", i) for i in range(w.size)] + ["zz"], -1) == [*range(w.size), -1]
d.update({(w.rank, i): i for i in range(50)})
w.barrier()
assert sum(w.allgather(len(d.local))) == w.size + 1 + 50 * w.size
del d["k", w.rank]
assert ("k", w.rank) not in d
for call in (lambda: d["none"], lambda: d.pop("none"), lambda: d.__delitem__("none")):
    try:
        call()
    except KeyError:
        pass
    else:
        raise AssertionError("there is no such key")

w.barrier()
assert len(d) == 1 + 50 * w.size and dict(d.items())[0, 3] == 3 and "n" in list(d)
w.barrier()
if w.rank == 0:
    d.clear()
w.barrier()
assert len(d) == 0 and d.get("n", timeout=60) is None
d.free()
try:
    d.get("n")
except ValueError as error:
    assert "freed" in str(error)
else:
    raise AssertionError("a dictionary that was freed")
w.barrier()



# Another module may encode objects; what it makes are pickles.
class Encoder:
    encoded = 0

    @staticmethod
    def dumps(obj, protocol, buffer_callback=None):
        Encoder.encoded += 1
        return pickle.dumps(obj, protocol, buffer_callback=buffer_callback)


clump.pickle = Encoder
w.send({"a": np.arange(9)}, after)
assert (w.recv(before)["a"] == np.arange(9)).all() and Encoder.encoded == 1
del clump.pickle
w.barrier()

lock = clump.Lock()
other = clump.Lock()
t = clump.zeros(3, "i8")
for _ in range(10):
    with lock:
        t[2] = t[2] + 1
w.barrier()
assert t[2] == 10 * w.size
if w.rank == 0:
    other.acquire()
w.barrier()
if w.rank == 1:
    assert not other.acquire(0) and not other.acquire(0.02)
w.barrier()
if w.rank == 0:
    other.release()
t.fetch_add(0)
w.barrier()
assert t[0] == w.size
print("ok", w.rank)
