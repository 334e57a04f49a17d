"""Tasks on ranks that are processes of their own: Executor."""

import collections
import concurrent.futures
import itertools
import os
import pickle
import selectors
import threading
import time
import weakref

from . import _links
from ._errors import RemoteError
from ._workers import Ranks, dumps

#: Fewest and most tasks that a worker has, of which it executes one. More than the fewest are sent
#: while tasks are so short that a worker has none left when the next one comes to it.
_FEWEST, _MOST = 2, 8
#: Seconds of a task that is not short: those behind it may be better off elsewhere.
_LONG_SECONDS = 0.005
#: Calls of a map that are encoded at a time: workers begin meanwhile.
_BATCH = 64


def _failure(error, trace, rank):
    """Returns the exception of a task, with the traceback of its worker as the cause."""
    cause = RemoteError(f"at worker {rank}:\n{trace}", rank=rank, remote_traceback=trace)
    if not isinstance(error, BaseException):
        return cause
    error.__cause__ = cause
    return error


class _Work:
    """A chunk of calls. `begun` once their futures are running, `tries`: workers that died of it."""

    __slots__ = ("begun", "body", "futures", "number", "tries")

    def __init__(self, number, body, futures):
        self.number, self.body, self.futures = number, body, futures
        self.begun, self.tries = False, 0

    def begin(self):
        """Notes that the calls run; returns false if all of them are cancelled."""
        if not self.begun:
            self.begun = any([it.set_running_or_notify_cancel() for it in self.futures])
        return self.begun


class _Worker:
    """A worker, and the work that it has. `since`: when it began the first of it, or replied."""

    __slots__ = ("begun", "events", "link", "rank", "since")

    def __init__(self, rank, connection):
        self.rank, self.link = rank, _links.Link(connection)
        self.begun, self.since = {}, 0.0
        self.events = selectors.EVENT_READ

    def load(self):
        """Returns the number of works that it has."""
        return len(self.begun)

    def give(self, work):
        """Adds a work, which the link's next push sends."""
        if not self.begun:
            self.since = time.monotonic()
        self.begun[work.number] = work
        self.link.put(_links.work_head(_links.TASK, work.number), work.body)

    def watch(self, selector):
        """Waits for room, too, while bytes wait for it."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.link.waits else 0)
        if events != self.events:
            self.events = events
            selector.modify(self.link.fd, events, self)


#: Executors whose threads run.
_running = weakref.WeakSet()


def _end_all():
    """At the end of the process: calls that were submitted are executed before."""
    for executor in list(_running):
        executor.shutdown()


# As concurrent.futures does: before the interpreter waits for threads, and before `atexit`.
threading._register_atexit(_end_all)


class Executor(concurrent.futures.Executor):
    """Executes calls on `workers` ranks of a job of their own, as concurrent.futures has it.

        with clump.Executor(8) as e:
            print(sum(e.map(f, range(100))))

    Functions of the script need no guard: a worker executes the script up to where it makes an
    Executor. A worker that dies does not end the others: its calls are executed again, once, and
    fail with BrokenExecutor if that worker dies, too. `options` are those of `clump run`.
    """

    def __init__(self, workers=None, *, nodes=1, initializer=None, initargs=(), options=()):
        workers = os.cpu_count() if workers is None else workers
        options = ("--on-death", "continue", *options)
        self._ranks = Ranks(
            workers, nodes=nodes, options=options, initializer=initializer, initargs=initargs
        )
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._queue = collections.deque()
        self._closing = False
        self._broken = None
        #: True while the thread sleeps, and calls are to wake it.
        self._asleep = False
        #: Works that a worker has at most.
        self._ahead = _FEWEST
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._serve, name="clump.Executor", daemon=True)
        self._thread.start()
        _running.add(self)

    def _put(self, works):
        """Adds calls: the pickled function and arguments, and the futures."""
        with self._lock:
            if self._broken is not None:
                raise concurrent.futures.BrokenExecutor(self._broken)
            if self._closing:
                raise RuntimeError("cannot submit calls after shutdown")
            self._queue.extend(_Work(next(self._numbers), *work) for work in works)
            wakes, self._asleep = self._asleep, False
        if wakes:
            self._wake()

    def _wake(self):
        with self._lock:
            try:
                if self._wake_write is not None:
                    os.write(self._wake_write, b"x")
            except BlockingIOError:
                pass  # a wake-up is there already

    def submit(self, fn, /, *args, **kwargs):
        """Begins a call; returns its future."""
        future = concurrent.futures.Future()
        self._put([(dumps((fn, [(args, kwargs)])), [future])])
        return future

    def map(self, fn, *iterables, timeout=None, chunksize=None):
        """Calls `fn` with the items of `iterables`, `chunksize` calls in one message; returns the
        results in order."""
        calls = [(args, {}) for args in zip(*iterables)]
        if chunksize is None:
            chunksize = max(1, len(calls) // (8 * max(1, len(self._ranks.pids))))
        if chunksize < 1:
            raise ValueError("chunksize must be 1 or more")
        futures = [concurrent.futures.Future() for _ in calls]
        starts = range(0, len(calls), chunksize)
        for batch in (starts[at : at + _BATCH] for at in range(0, len(starts), _BATCH)):
            cuts = [slice(at, at + chunksize) for at in batch]
            self._put([(dumps((fn, calls[cut])), futures[cut]) for cut in cuts])
        ends = None if timeout is None else time.monotonic() + timeout

        def results():
            try:
                for future in futures:
                    left = None if ends is None else ends - time.monotonic()
                    yield future.result(left)
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Ends the workers when all calls are over."""
        with self._lock:
            self._closing = True
            if cancel_futures:
                # Calls of a worker that has died run, although they are in the queue.
                waiting = [work for work in self._queue if not work.begun]
                self._queue = collections.deque(work for work in self._queue if work.begun)
                for work in waiting:
                    for future in work.futures:
                        future.cancel()
        self._wake()
        if wait and self._thread is not threading.current_thread():
            self._thread.join()

    def _next(self):
        """Returns the next work of which a call is not cancelled."""
        with self._lock:
            while self._queue:
                work = self._queue.popleft()
                if work.begin():
                    return work
        return None

    def _serve(self):
        workers = {rank: _Worker(rank, each) for rank, each in enumerate(self._ranks.connections)}
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ, None)
        for worker in workers.values():
            selector.register(worker.link.fd, worker.events, worker)
        try:
            while True:
                self._hand_out(workers)
                with self._lock:
                    idle = not self._queue and not any(it.begun for it in workers.values())
                    if (self._closing and idle) or not workers:
                        break
                    self._asleep = not self._queue
                for worker in workers.values():
                    worker.watch(selector)
                for key, events in selector.select():
                    if key.data is None:
                        os.read(self._wake_read, 4096)
                    elif key.data.rank in workers:
                        self._exchange(key.data, events, workers, selector)
        except BaseException as error:  # an error of this file: nobody may wait for it for ever
            self._break(f"the executor failed: {error!r}", workers)
        else:
            if not workers:
                self._break("all workers have died", workers)
        finally:
            _running.discard(self)
            selector.close()
            self._ranks.end()
            with self._lock:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_write = None

    def _hand_out(self, workers):
        """Gives work to the workers that have least of it."""
        while workers:
            worker = min(workers.values(), key=_Worker.load)
            work = self._next() if worker.load() < self._ahead else None
            if work is None:
                break
            worker.give(work)
        for worker in workers.values():
            worker.link.push()

    def _exchange(self, worker, events, workers, selector):
        """Sends to a worker, and takes its results, as far as that goes now."""
        if events & selectors.EVENT_WRITE:
            worker.link.push()
        try:
            messages = worker.link.receive() if events & selectors.EVENT_READ else []
        except (EOFError, OSError):
            self._lose(worker, workers, selector)
            return
        if not messages:
            return
        now = time.monotonic()
        if now - worker.since > _LONG_SECONDS * len(messages):
            self._ahead = _FEWEST
        elif self._queue and len(messages) == len(worker.begun):
            self._ahead = min(2 * self._ahead, _MOST)
        worker.since = now
        for message in messages:
            number, *reply = _links.read_reply(message)
            self._finish(worker.begun.pop(number), worker.rank, reply)

    def _finish(self, work, rank, reply):
        """Completes the futures of a work by its reply."""
        good, body, trace, _ = reply
        try:
            value = pickle.loads(body)
        except BaseException as error:
            value, trace = None, trace or f"the result cannot be read: {error!r}"
            good = False
        failure = None if good else _failure(value, trace, rank)
        for at, future in enumerate(work.futures):
            if future.cancelled():
                continue
            if good:
                future.set_result(value[at])
            else:
                future.set_exception(failure)

    def _lose(self, worker, workers, selector):
        """Gives a dead worker's calls to others; those that killed two workers fail."""
        selector.unregister(worker.link.fd)
        worker.link.close()
        del workers[worker.rank]
        works = list(worker.begun.values())
        # The first one ran, and those behind it had not begun.
        if works:
            works[0].tries += 1
            if works[0].tries == 2:
                self._fail(works.pop(0), "two workers died while they executed this call")
        with self._lock:
            self._queue.extendleft(reversed(works))

    def _fail(self, work, why):
        for future in work.futures:
            try:
                future.set_exception(concurrent.futures.BrokenExecutor(why))
            except concurrent.futures.InvalidStateError:
                pass  # it is over, or cancelled

    def _break(self, why, workers):
        with self._lock:
            self._broken = why
            left = list(self._queue)
            self._queue.clear()
        for worker in workers.values():
            left += worker.begun.values()
        for work in left:
            self._fail(work, why)
