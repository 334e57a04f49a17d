"""Ranks of a notebook or script that persist between cells: Cluster."""

import itertools
import pickle
import signal
import threading
from multiprocessing.connection import wait

from . import _links
from ._errors import ClumpError
from ._workers import Ranks


class _Interrupts:
    """Counts Ctrl-C while a cell runs, in the main thread; the third raises KeyboardInterrupt."""

    def __init__(self):
        self.count = 0

    def _note(self, number, frame):
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt

    def __enter__(self):
        self._main = threading.current_thread() is threading.main_thread()
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind, error, trace):
        if self._main:
            signal.signal(signal.SIGINT, self._before)


class CellError(ClumpError):
    """A cell failed at a rank; `outputs` has what each rank printed."""

    def __init__(self, text="", *, rank=None, op=None, outputs=(), remote_traceback=""):
        super().__init__(text, rank=rank, op=op)
        self.outputs = list(outputs)
        self.remote_traceback = remote_traceback


class Cluster:
    """Ranks that execute cells of a notebook or parts of a script, and keep their variables.

        with clump.Cluster(4, nodes=2) as c:
            c.run('import clump; w = clump.world(); print("rank", w.rank)')
            print(c.values("w.rank"))

    The process that makes it is a client. Ctrl-C interrupts the cell at all ranks. `restart()`
    starts new ranks after one has died.
    """

    def __init__(self, n, *, nodes=1, options=()):
        self._given = (n, nodes, tuple(options))
        self._numbers = itertools.count(1)
        self._ranks = None
        self.restart()

    @property
    def size(self):
        """Number of ranks."""
        return self._given[0]

    def restart(self):
        """Ends the ranks, and starts new ones, without variables."""
        self.close()
        n, nodes, options = self._given
        self._ranks = Ranks(n, nodes=nodes, joins=True, options=options)

    def close(self):
        """Ends the ranks."""
        if self._ranks is not None:
            self._ranks.end()
            self._ranks = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def _execute(self, code, ranks):
        if self._ranks is None:
            raise ClumpError("the cluster is closed: restart() starts its ranks again")
        ranks = range(self.size) if ranks is None else list(ranks)
        number = next(self._numbers)
        body = _links.work_head(_links.CELL, number) + code.encode()
        connections = self._ranks.connections
        waiting = {connections[rank]: rank for rank in ranks}
        replies = {}
        with _Interrupts() as interrupts:
            for connection, rank in waiting.items():
                try:
                    connection.send_bytes(body)
                except (ConnectionError, OSError) as error:
                    self._died(rank, error)
            while waiting:
                if interrupts.count:
                    # Again for a rank that had not begun when the last one came.
                    self._ranks.interrupt(waiting.values())
                for connection in wait(list(waiting), 0.1):
                    rank = waiting[connection]
                    try:
                        reply = _links.read_reply(connection.recv_bytes())
                    except (EOFError, ConnectionError, OSError) as error:
                        self._died(rank, error)
                    if reply[0] == number:  # else of a cell that was given up
                        replies[rank] = reply[1:]
                        del waiting[connection]
        return replies, interrupts.count

    def _died(self, rank, error):
        self.close()
        raise ClumpError(
            f"rank {rank} died, and with it the job: restart() starts new ranks", rank=rank
        ) from error

    def _outputs(self, code, ranks):
        replies, interrupts = self._execute(code, ranks)
        texts = {rank: text for rank, (*_, text) in replies.items()}
        if interrupts:
            raise KeyboardInterrupt("the cell was interrupted at all ranks")
        values = {}
        for rank, (good, body, trace, _) in sorted(replies.items()):
            try:
                values[rank] = pickle.loads(body)
            except BaseException as error:
                values[rank] = None
                trace = trace or f"the value cannot be read: {error!r}"
                good = False
            if not good:
                error = CellError(
                    f"rank {rank} fails:\n{trace}",
                    rank=rank,
                    outputs=[texts[r] for r in sorted(texts)],
                    remote_traceback=trace,
                )
                cause = values[rank] if isinstance(values[rank], BaseException) else None
                raise error from cause
        return texts, values

    def run(self, code, *, ranks=None, show=True):
        """Executes code at all ranks, or some; prints what they print, by rank. Returns their
        outputs, by rank."""
        texts, values = self._outputs(code, ranks)
        if show:
            for rank in sorted(texts):
                for line in texts[rank].splitlines():
                    print(f"[{rank}] {line}")
                if values[rank] is not None:
                    print(f"[{rank}] {values[rank]!r}")
        return texts

    def values(self, expression, *, ranks=None):
        """Returns the value of an expression at all ranks, or some, by rank."""
        _, values = self._outputs(expression, ranks)
        return [values[rank] for rank in sorted(values)]

    def magic(self):
        """Registers `%%clump` with the running IPython: the cell is executed at all ranks."""
        from IPython import get_ipython

        def clump(line, cell):
            ranks = [int(word) for word in line.replace(",", " ").split()] or None
            self.run(cell, ranks=ranks)

        get_ipython().register_magic_function(clump, "cell", "clump")
