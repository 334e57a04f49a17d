"""Tasks and cells on ranks that are processes of their own: Executor and Cluster.

The process that makes them is a client: it joins no job, and forks nothing. The launcher starts the
ranks, each of which connects to a socket of the client.
"""

import collections
import concurrent.futures
import itertools
import os
import pickle
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from ._codec import encoder
from ._errors import RemoteError, StartError
from ._links import Link

#: True in workers, which execute the client's script up to where it makes workers.
in_worker = False
#: Tasks that are sent to a worker before it has finished the first.
_AHEAD = 2
_START_SECONDS = 60


class InWorker(BaseException):
    """Ends the execution of the client's script in a worker, where that makes workers."""


def _main():
    """Returns what a worker needs to import the client's script."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is not None and not os.path.exists(path):
        path = None
    sys.modules.setdefault("__mp_main__", main)
    return {
        "file": None if path is None else os.path.abspath(path),
        "path": [os.path.abspath(entry) for entry in sys.path],
        "argv": sys.argv,
    }


def dumps(obj):
    """Encodes functions and arguments; by cloudpickle if the program has set it."""
    return encoder().dumps(obj, protocol=5)


class _Ranks:
    """Ranks of a job, and the connections to them."""

    def __init__(self, n, *, nodes=1, joins=False, options=(), initializer=None, initargs=()):
        if in_worker:
            raise InWorker
        if n < 1:
            raise ValueError(f"{n} ranks")
        from . import launcher

        self.folder = tempfile.mkdtemp(prefix="clump-")
        self.connections, self.pids = [], []
        self.job = None
        try:
            self._start(n, nodes, joins, options, launcher())
            self._greet(initializer, initargs)
        except BaseException:
            self.end()
            raise

    def _start(self, n, nodes, joins, options, launcher):
        address = os.path.join(self.folder, "socket")
        secret = os.path.join(self.folder, "secret")
        key = secrets.token_bytes(32)
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(n)
            listener.settimeout(0.1)
            words = [launcher, "run", "-n", str(n), "--nodes", str(nodes), *options]
            words += [sys.executable, "-m", "clump._worker", address, secret]
            words.append("join" if joins else "apart")
            # A session of its own: Ctrl-C at the client's terminal is the client's to pass on.
            self.job = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL)
            ends = time.monotonic() + _START_SECONDS
            while len(self.connections) < n:
                try:
                    accepted, _ = listener.accept()
                except TimeoutError:
                    self._check_start(ends)
                    continue
                accepted.setblocking(True)
                connection = Connection(accepted.detach())
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
                self.connections.append(connection)
        # All are here: nothing is left behind from now on, however this process ends.
        shutil.rmtree(self.folder, ignore_errors=True)

    def _check_start(self, ends):
        code = self.job.poll()
        if code is not None:
            raise StartError(f"the job of workers ended with code {code} before all had started")
        if time.monotonic() > ends:
            raise StartError(f"workers have not started within {_START_SECONDS} s")

    def _greet(self, initializer, initargs):
        hellos = []
        for connection in self.connections:
            hellos.append(self._received(connection))
        order = sorted(range(len(hellos)), key=lambda at: hellos[at]["rank"])
        self.connections = [self.connections[at] for at in order]
        self.pids = [hellos[at]["pid"] for at in order]
        first = None if initializer is None else dumps((initializer, initargs))
        start = pickle.dumps({"main": _main(), "initializer": first})
        for connection in self.connections:
            connection.send_bytes(start)
        for connection in self.connections:
            failed = self._received(connection)
            if failed is not None:
                raise StartError(f"a worker could not start:\n{failed}")

    def _received(self, connection):
        ends = time.monotonic() + _START_SECONDS
        while not connection.poll(0.1):
            self._check_start(ends)
        try:
            return pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError) as error:
            raise StartError("a worker ended while it started") from error

    def interrupt(self, ranks):
        """Sends SIGINT to workers."""
        for rank in ranks:
            try:
                os.kill(self.pids[rank], signal.SIGINT)
            except ProcessLookupError:
                pass

    def end(self, seconds=5):
        """Closes the connections, which ends the workers; then the job, if they do not end."""
        for connection in self.connections:
            connection.close()
        self.connections = []
        if self.job is not None:
            try:
                self.job.wait(seconds)
            except subprocess.TimeoutExpired:
                self.job.terminate()
                try:
                    self.job.wait(5)
                except subprocess.TimeoutExpired:
                    self.job.kill()
                    self.job.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


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
        self._ranks = _Ranks(
            workers, nodes=nodes, options=options, initializer=initializer, initargs=initargs
        )
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._queue = collections.deque()
        self._closing = False
        self._broken = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._serve, name="clump.Executor", daemon=True)
        self._thread.start()
        _running.add(self)

    def _put(self, body, futures):
        with self._lock:
            if self._broken is not None:
                raise concurrent.futures.BrokenExecutor(self._broken)
            if self._closing:
                raise RuntimeError("cannot submit calls after shutdown")
            self._queue.append(_Work(next(self._numbers), body, futures))
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
        self._put(dumps((fn, [(args, kwargs)])), [future])
        return future

    def map(self, fn, *iterables, timeout=None, chunksize=None):
        """Calls `fn` with the items of `iterables`, `chunksize` calls in one message; returns the
        results in order."""
        calls = [(args, {}) for args in zip(*iterables)]
        if chunksize is None:
            chunksize = max(1, len(calls) // (8 * max(1, len(self._ranks.pids))))
        if chunksize < 1:
            raise ValueError("chunksize must be 1 or more")
        futures = []
        for at in range(0, len(calls), chunksize):
            chunk = calls[at : at + chunksize]
            mine = [concurrent.futures.Future() for _ in chunk]
            self._put(dumps((fn, chunk)), mine)
            futures += mine
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
        links = {rank: Link(each) for rank, each in enumerate(self._ranks.connections)}
        begun = {rank: {} for rank in links}
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ, None)
        for rank, link in links.items():
            selector.register(link.fd, selectors.EVENT_READ, rank)
        try:
            while True:
                self._hand_out(links, begun)
                with self._lock:
                    idle = not self._queue and not any(begun.values())
                    if (self._closing and idle) or not links:
                        break
                for rank, link in links.items():
                    events = selectors.EVENT_WRITE if link.waits else 0
                    selector.modify(link.fd, selectors.EVENT_READ | events, rank)
                for key, events in selector.select():
                    if key.data is None:
                        os.read(self._wake_read, 4096)
                    elif key.data in links:
                        self._exchange(key.data, events, links, begun, selector)
        except BaseException as error:  # an error of this file: nobody may wait for it for ever
            self._break(f"the executor failed: {error!r}", begun)
        else:
            if not links:
                self._break("all workers have died", begun)
        finally:
            _running.discard(self)
            selector.close()
            self._ranks.end()
            with self._lock:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_write = None

    def _hand_out(self, links, begun):
        for ahead in range(1, _AHEAD + 1):
            for rank in links:
                if len(begun[rank]) < ahead:
                    work = self._next()
                    if work is None:
                        return
                    begun[rank][work.number] = work
                    links[rank].send(pickle.dumps(("task", work.number, work.body)))

    def _exchange(self, rank, events, links, begun, selector):
        """Sends to a worker, and takes its results, as far as that goes now."""
        if events & selectors.EVENT_WRITE:
            links[rank].push()
        try:
            messages = links[rank].receive() if events & selectors.EVENT_READ else []
        except (EOFError, OSError):
            self._lose(rank, links, begun, selector)
            return
        for message in messages:
            number, *reply = pickle.loads(message)
            self._finish(begun[rank].pop(number), rank, reply)

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

    def _lose(self, rank, links, begun, selector):
        """Gives a dead worker's calls to others; those that killed two workers fail."""
        selector.unregister(links[rank].fd)
        links.pop(rank).close()
        works = list(begun[rank].values())
        begun[rank] = {}
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

    def _break(self, why, begun):
        with self._lock:
            self._broken = why
            left = list(self._queue)
            self._queue.clear()
        for works in begun.values():
            left += works.values()
        for work in left:
            self._fail(work, why)
