"""Endpoints that open and close in one thread, while others poll and send: no lock is held while
a handler waits for the interpreter's."""

import threading

import clump

w = clump.world()
ep = clump.Endpoint()
after = ep.map(w.allgather(ep.name)[(w.rank + 1) % w.size])
handled = 0


@ep.handler(1)
def count(token, words, payload):
    global handled
    handled += 1


w.barrier()
done = threading.Event()
sent = 0


def ask():
    global sent
    while not done.is_set():
        ep.request(after, 1, 1)
        sent += 1


def open_and_close():
    try:
        for _ in range(100):
            clump.Endpoint().close()
    finally:
        done.set()


threads = [threading.Thread(target=ask), threading.Thread(target=open_and_close)]
for thread in threads:
    thread.start()
while not done.is_set():
    w.serve(0.02)
for thread in threads:
    thread.join()
ep.drain(timeout=60)
w.barrier()
ep.poll()
assert w.allreduce(handled) == w.allreduce(sent)
print("ok")
