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
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from ._errors import RemoteError, StartError

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


def _dumps(obj):
    """Encodes functions and arguments; by cloudpickle if the program has set it."""
    encoder = sys.modules["clump"].__dict__.get("pickle", pickle)
    return encoder.dumps(obj, protocol=5)


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
        first = None if initializer is None else _dumps((initializer, initargs))
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
    __slots__ = ("body", "futures", "number", "tries")

    def __init__(self, number, body, futures):
        self.number, self.body, self.futures, self.tries = number, body, futures, 0


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

    def _put(self, body, futures):
        with self._lock:
            if self._broken is not None:
                raise concurrent.futures.BrokenExecutor(self._broken)
            if self._closing:
                raise RuntimeError("cannot submit calls after shutdown")
            self._queue.append(_Work(next(self._numbers), body, futures))
        self._wake()

    def _wake(self):
        try:
            os.write(self._wake_write, b"x")
        except (BlockingIOError, OSError):
            pass  # a wake-up is there already, or the thread has ended

    def submit(self, fn, /, *args, **kwargs):
        """Begins a call; returns its future."""
        future = concurrent.futures.Future()
        self._put(_dumps((fn, [(args, kwargs)])), [future])
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
            self._put(_dumps((fn, chunk)), mine)
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
                for work in self._queue:
                    for future in work.futures:
                        future.cancel()
                self._queue.clear()
        self._wake()
        if wait and self._thread is not threading.current_thread():
            self._thread.join()

    def _next(self):
        """Returns the next work of which a call is not cancelled."""
        with self._lock:
            while self._queue:
                work = self._queue.popleft()
                if work.tries:
                    return work
                live = [future.set_running_or_notify_cancel() for future in work.futures]
                if any(live):
                    return work
        return None

    def _serve(self):
        workers = dict(enumerate(self._ranks.connections))
        begun = {rank: {} for rank in workers}
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ, None)
        for rank, connection in workers.items():
            selector.register(connection.fileno(), selectors.EVENT_READ, rank)
        try:
            while True:
                self._hand_out(workers, begun, selector)
                with self._lock:
                    idle = not self._queue and not any(begun.values())
                    if (self._closing and idle) or not workers:
                        break
                for key, _ in selector.select():
                    if key.data is None:
                        os.read(self._wake_read, 4096)
                    elif key.data in workers:
                        self._take(key.data, workers, begun, selector)
        except BaseException as error:  # an error of this file: nobody may wait for it for ever
            self._break(f"the executor failed: {error!r}", begun)
        else:
            if not workers:
                self._break("all workers have died", begun)
        finally:
            selector.close()
            self._ranks.end()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _hand_out(self, workers, begun, selector):
        for ahead in range(1, _AHEAD + 1):
            for rank in list(workers):
                if rank in workers and len(begun[rank]) < ahead:
                    work = self._next()
                    if work is None:
                        return
                    begun[rank][work.number] = work
                    try:
                        workers[rank].send_bytes(pickle.dumps(("task", work.number, work.body)))
                    except (ConnectionError, OSError):
                        self._lose(rank, workers, begun, selector)

    def _take(self, rank, workers, begun, selector):
        try:
            number, good, value, trace = pickle.loads(workers[rank].recv_bytes())
        except (EOFError, ConnectionError, OSError):
            self._lose(rank, workers, begun, selector)
            return
        except BaseException as error:
            # A result whose class cannot be loaded here; its number is unknown: the oldest.
            number = next(iter(begun[rank]))
            good, value, trace = False, error, f"the result cannot be read: {error!r}"
        work = begun[rank].pop(number)
        failure = None if good else _failure(value, trace, rank)
        for at, future in enumerate(work.futures):
            if future.cancelled():
                continue
            if good:
                future.set_result(value[at])
            else:
                future.set_exception(failure)

    def _lose(self, rank, workers, begun, selector):
        """Gives a dead worker's calls to others; those that killed two workers fail."""
        selector.unregister(workers[rank].fileno())
        workers.pop(rank).close()
        again, lost = [], []
        for work in begun[rank].values():
            work.tries += 1
            (again if work.tries < 2 else lost).append(work)
        begun[rank] = {}
        for work in lost:
            why = "a worker died while it executed this call, and a second one, too"
            self._fail(work, why)
        with self._lock:
            self._queue.extendleft(reversed(again))

    def _fail(self, work, why):
        for future in work.futures:
            if not future.done():
                future.set_exception(concurrent.futures.BrokenExecutor(why))

    def _break(self, why, begun):
        with self._lock:
            self._broken = why
            left = list(self._queue)
            self._queue.clear()
        for works in begun.values():
            left += works.values()
        for work in left:
            self._fail(work, why)
