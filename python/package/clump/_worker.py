"""A rank that executes tasks and cells of a client: `clump._workers` starts it."""

import contextlib
import io
import os
import pickle
import select
import signal
import sys
import traceback
from multiprocessing.connection import Client

from . import _links, _native, _workers

#: Seconds between two polls of clump while a worker that has joined its job waits for work.
_POLL = 0.002


def _import_main(main):
    """Executes the client's script up to where it makes workers, so that its functions exist."""
    import types

    sys.path[:], sys.argv = main["path"], main["argv"]
    if main["file"] is None:
        return
    module = types.ModuleType("__mp_main__")
    module.__file__ = main["file"]
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    with open(main["file"], "rb") as script:
        code = compile(script.read(), main["file"], "exec")
    try:
        exec(code, module.__dict__)
    except _workers.InWorker:
        pass


def _trace(error):
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _encoded(number, good, value, trace, output=""):
    """Returns a reply, its value pickled. One that cannot be pickled is a failure with the reason."""
    try:
        body = _workers.dumps(value)
    except BaseException as error:
        good, body, trace = False, pickle.dumps(None), trace or _trace(error)
    return _links.reply(number, good, body, trace, output)


class _Worker:
    def __init__(self, connection, rank):
        self.connection = connection
        self.rank = rank
        self.names = {"__name__": "__main__"}
        #: True while work of the client runs, which an interrupt ends.
        self.busy = False

    def interrupted(self, number, frame):
        """Ends the work that runs, once; without effect between two."""
        if self.busy:
            self.busy = False
            raise KeyboardInterrupt

    def task(self, number, body):
        """Executes a chunk of calls of a function."""
        try:
            self.busy = True
            function, calls = pickle.loads(body)
            value = [function(*args, **kwargs) for args, kwargs in calls]
            self.busy = False
        except BaseException as error:
            self.busy = False
            return _encoded(number, False, error, _trace(error))
        return _encoded(number, True, value, None)

    def cell(self, number, body):
        """Executes a cell; its output goes to the client, and the value of its last expression."""
        import ast

        out = io.StringIO()
        value, good, error, trace = None, True, None, None
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                self.busy = True
                tree = ast.parse(body.decode(), "<cell>")
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, "<cell>", "exec"), self.names)
                if last is not None:
                    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.names)
                self.busy = False
        except BaseException as caught:
            self.busy = False
            good, error, trace = False, caught, _trace(caught)
        if not good:
            value = error
        try:
            _workers.dumps(value)
        except BaseException:
            value = repr(value) if good else None
        return _encoded(number, good, value, trace, out.getvalue())

    def serve(self):
        """Executes what comes until the client goes."""
        fd, inbox = self.connection.fileno(), _links.Inbox()
        while True:
            try:
                while _native.is_joined() and not select.select([fd], [], [], _POLL)[0]:
                    _native.poll()
                messages = inbox.read(fd)
            except (EOFError, ConnectionError):
                return
            for message in messages:
                kind, number, body = _links.read_work(message)
                run = self.task if kind == _links.TASK else self.cell
                reply = run(number, body)
                try:
                    self.connection.send_bytes(reply)
                except ConnectionError:
                    return  # nobody waits for the rest


def main():
    """Connects to the client, and serves it."""
    address, secret, joins = sys.argv[1:4]
    with open(secret, "rb") as file:
        connection = Client(address, family="AF_UNIX", authkey=file.read())
    hello = {"pid": os.getpid(), "rank": int(os.environ.get("CLUMP_RANK", -1))}
    try:
        if joins == "join":
            from ._world import world

            hello["rank"] = world().rank
        connection.send_bytes(pickle.dumps(hello))
        start = pickle.loads(connection.recv_bytes())
        _workers.in_worker = True
        _import_main(start["main"])
        if start["initializer"] is not None:
            function, args = pickle.loads(start["initializer"])
            function(*args)
        connection.send_bytes(pickle.dumps(None))
    except (EOFError, ConnectionError):
        return
    except BaseException as error:
        connection.send_bytes(pickle.dumps(_trace(error)))
        return
    worker = _Worker(connection, hello["rank"])
    signal.signal(signal.SIGINT, worker.interrupted)
    worker.serve()


if __name__ == "__main__":
    # Objects of this file that are pickled belong to the module of its name.
    from clump import _worker

    _worker.main()
