"""A program with types: `mypy --strict` finds no error but those that are expected, and it runs."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import clump

w = clump.world()
assert_type(w, clump.World)
assert_type(w.allreduce(1.5), float)
assert_type(w.allgather({"rank": w.rank}), list[dict[str, int]])
assert_type(w.bcast("a" if w.rank == 0 else None), str)
assert_type(w.gather(w.rank), list[int] | None)
assert_type(w.split(w.rank % 2), clump.Team)

with clump.zeros((10, 10), np.int64, spread="cyclic") as t:
    t.add(np.arange(10), 1)
    w.barrier()
    assert t[3] == w.size
    assert_type(t.get(0, 10), NDArray[Any])
    assert_type(t.owner(3), int)
    w.barrier()


@clump.handler
def double(x: int) -> int:
    return 2 * x


@clump.handler(name="text")
def text(x: int, *, base: int = 10) -> str:
    return str(x) if base == 10 else hex(x)


assert_type(clump.call(double, 0, 21), int)
begun = clump.start(text, 0, 21, base=16)
assert_type(begun.wait(timeout=5), str)

counts: clump.Dict[str, int] = clump.Dict()
counts.add("all")
w.barrier()
assert counts["all"] == w.size
assert_type(counts.get("a"), int | None)
assert_type(counts.get("a", 0), int)
anything = clump.Dict()
anything[1, "x"] = "a value"

with clump.Lock() as lock:
    assert_type(lock.held, bool)

ep = clump.Endpoint()
to = ep.map(ep.name)
answers: list[int] = []


@ep.handler(1)
def answer(token: clump.Token, words: tuple[int, ...], payload: bytes) -> None:
    token.reply(2, words[0], payload=payload)


@ep.handler(2)
def take(token: clump.Token, words: tuple[int, ...], payload: bytes) -> None:
    answers.append(words[0])


ep.request(to, 1, 3, payload=np.zeros(4, np.uint8))
ep.wait(until=lambda: answers, timeout=10)

grid = clump.svm.empty((4, 4), "f8")
assert_type(clump.svm.prefetch(grid, write=True), NDArray[Any])

try:
    w.recv(0, 1, timeout=0)
except clump.ClumpTimeout as error:
    assert_type(error.rank, int | None)


async def waits() -> None:
    assert_type(await clump.start(double, 0, 4), int)
    with w.phase("end") as phase:
        w.barrier()
    assert_type(phase.seconds, float | None)


def others() -> None:
    with clump.Executor(2) as e:
        assert_type(e.submit(double, 3).result(), int)
        assert_type(sum(e.map(double, range(4))), int)
    with clump.Cluster(2) as c:
        assert_type(c.run("x = 1", show=False), dict[int, str])


if TYPE_CHECKING:
    # Each of these is an error, or the comment is one.
    w.send()  # type: ignore[call-arg]
    w.node_of("a")  # type: ignore[arg-type]
    w.allreduce(1, "mean")  # type: ignore[arg-type]
    clump.call(double, 0, "x")  # type: ignore[call-overload]
    clump.zeros(3, spread="round")  # type: ignore[arg-type]
    t.update(0, 1, "mul")  # type: ignore[arg-type]
    counts[1] = 1  # type: ignore[index]
    ep.request(0, 1)  # type: ignore[arg-type]
    clump.Executor("two")  # type: ignore[arg-type]
print("ok")
