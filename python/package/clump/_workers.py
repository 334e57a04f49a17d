"""Workers: ranks of a job that execute what a client sends, which joins no job and forks nothing.

The launcher starts them, and each connects to a socket of the client.
"""

import os
import pickle
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from ._codec import encoder
from ._errors import StartError

#: True in workers, which execute the client's script up to where it makes workers.
in_worker = False
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


class Ranks:
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
