"""Awaitables: calls and messages in coroutines, whose loop sleeps meanwhile."""

import asyncio
import sys
import threading
import time

import clump

w = clump.world()
after, before = (w.rank + 1) % w.size, (w.rank - 1) % w.size


@clump.handler
def double(x):
    return 2 * x


@clump.handler
def fails():
    raise ValueError("boom")


async def calls():
    pending = [clump.start(double, (w.rank + i) % w.size, i) for i in range(200)]
    assert await asyncio.gather(*pending) == [2 * i for i in range(200)]
    again = clump.start(double, after, 4)
    assert await again == 8 and await again == 8 and again.wait() == 8
    try:
        await clump.start(fails, after)
    except clump.RemoteError as error:
        assert "boom" in str(error)
    else:
        raise AssertionError("an exception is raised where the call is awaited")


async def messages():
    async def relay(turns):
        for turn in range(turns):
            w.send((turn, w.rank), after, 1)
            assert await w.arrival(before, 1) == (turn, before)

    # Others of the loop run while two wait for messages of one tag, and each gets one.
    both = [asyncio.ensure_future(w.arrival(before, 2)) for _ in range(2)]
    steps = 0
    await relay(50)
    while steps < 3:
        await asyncio.sleep(0)
        steps += 1
    w.send("first", after, 2)
    w.send("second", after, 2)
    assert set(await asyncio.gather(*both)) == {"first", "second"}
    late = asyncio.ensure_future(w.arrival(before, 3))
    try:
        await asyncio.wait_for(asyncio.shield(late), 0.02)
    except asyncio.TimeoutError:
        pass
    late.cancel()
    w.barrier()
    w.send("kept", after, 3)
    assert await w.arrival(before, 3) == "kept", "who has given up takes nothing"


async def idle():
    """A loop that waits uses no processor: all but rank 0 wait for it while it sleeps."""
    if w.rank == 0:
        await asyncio.sleep(0.5)
        for rank in range(1, w.size):
            w.send("go", rank, 4)
        return 0.0
    began = time.process_time()
    assert await w.arrival(0, 4) == "go"
    return time.process_time() - began


ep = clump.Endpoint()
names = w.allgather(ep.name)
heard, threads = [], set()


@ep.handler(1)
def hear(token, words, payload):
    threads.add(threading.current_thread())
    heard.append(words[0])


async def endpoints():
    """Handlers of an endpoint run in the loop's thread, when its messages come."""
    right = ep.map(names[after], ordered=True)
    for turn in range(200):
        ep.request(right, 1, turn)
        await asyncio.wait_for(ep.arrival(lambda turn=turn: len(heard) > turn), 60)
    assert heard == list(range(200)) and threads == {threading.main_thread()}


w.barrier()
asyncio.run(endpoints())
asyncio.run(calls())
asyncio.run(messages())
w.barrier()
used = asyncio.run(idle())
if w.size <= 2:
    assert used < 0.2, f"{used} s of a processor in 0.5 s"
w.barrier()
assert "clump._awaits" in sys.modules
print("ok", flush=True)
