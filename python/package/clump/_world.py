"""The job, teams and collectives."""

import atexit
import os
import sys
import threading

from . import _codec, _native
from ._errors import ClumpError, ClumpTimeout, NodeLost, RankDied, RankLeft

_world = None
_lock = threading.Lock()
#: Set by the runner: at a normal end, ranks wait for each other before they leave.
_together = False
_failed = False

#: Reductions that are executed without Python objects, on arrays.
OPS = ("sum", "prod", "min", "max", "and", "or", "xor")


def _numpy():
    numpy = sys.modules.get("numpy")
    if numpy is None:
        import numpy
    return numpy


def _is_array(obj):
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(obj) is numpy.ndarray


def _stored(out, value):
    """Returns a result, in the array `out` if there is one."""
    if out is None:
        return value
    shape = _numpy().shape(value)
    if out.shape != shape:
        raise ValueError(f"out is of shape {out.shape}, and the result of {shape}")
    _numpy().copyto(out, value, casting="same_kind")
    return out


def _rows(out, encoded):
    """Returns decoded objects: a list, or the array `out`, a row for each."""
    objs = [_codec.loads(data) for data in encoded]
    if out is None:
        return objs
    if len(out) != len(objs):
        raise ValueError(f"out has {len(out)} rows for {len(objs)} ranks")
    for row, obj in enumerate(objs):
        _stored(out[row : row + 1], _numpy().asarray(obj)[None])
    return out


class Team:
    """Ranks that execute collectives together, all in the same order."""

    def __init__(self, native):
        self._native = native
        self.rank = native.rank
        self.size = native.nranks

    @property
    def nranks(self):
        """Number of ranks."""
        return self.size

    @property
    def members(self):
        """Ranks of the job that form the team, by rank of the team."""
        return list(self._native.members)

    def __repr__(self):
        return f"<clump.{type(self).__name__}: rank {self.rank} of {self.size}>"

    def _encoded(self, encode):
        """Returns what `encode` gives; if it fails, the others fail too, instead of waiting."""
        try:
            return encode()
        except BaseException as error:
            self._native.decline(f"{type(error).__name__}: {error}")
            raise

    def _check_root(self, root):
        if not 0 <= root < self.size:
            raise ValueError(f"there is no rank {root} in a team of {self.size} ranks")

    def barrier(self, timeout=None):
        """Returns once all ranks of the team have called it."""
        self._native.barrier(timeout)

    def bcast(self, obj, root=0, *, out=None, timeout=None):
        """Returns the object of `root` at all ranks; `obj` of others is not used. `out` is an array
        for it, here and in the other collectives: with one row for each rank where they return a
        list."""
        self._check_root(root)
        mine = self._encoded(lambda: _codec.dumps(obj)) if self.rank == root else []
        data = self._native.broadcast(root, mine, timeout)
        return _stored(out, obj if self.rank == root else _codec.loads(data))

    def gather(self, obj, root=0, *, out=None, timeout=None):
        """Returns the objects of all ranks, by rank, at `root`; `None` elsewhere."""
        self._check_root(root)
        mine = self._encoded(lambda: _codec.dumps(obj))
        all = self._native.gather(root, mine, timeout)
        return None if all is None else _rows(out, all)

    def allgather(self, obj, *, out=None, timeout=None):
        """Returns the objects of all ranks, by rank."""
        mine = self._encoded(lambda: _codec.dumps(obj))
        return _rows(out, self._native.all_gather(mine, timeout))

    def scatter(self, objs, root=0, *, out=None, timeout=None):
        """Returns this rank's object of the sequence that `root` gives, one for each rank."""
        self._check_root(root)

        def encode():
            if len(objs) != self.size:
                raise ValueError(f"{len(objs)} objects were given for {self.size} ranks")
            return [_codec.dumps(obj) for obj in objs]

        parts = self._encoded(encode) if self.rank == root else []
        return _stored(out, _codec.loads(self._native.scatter(root, parts, timeout)))

    def alltoall(self, objs, *, out=None, timeout=None):
        """Gives `objs[i]` to rank `i`; returns what the ranks give to this one, by rank."""

        def encode():
            if len(objs) != self.size:
                raise ValueError(f"{len(objs)} objects were given for {self.size} ranks")
            return [_codec.dumps(obj) for obj in objs]

        return _rows(out, self._native.all_to_all(self._encoded(encode), timeout))

    def allreduce(self, obj, op="sum", *, out=None, timeout=None):
        """Combines all ranks' objects; all get the same.

        Arrays are combined element by element; all ranks give the same type and shape. Other
        objects are combined in the order of ranks. `op` is one of sum, prod, min, max, and, or,
        xor, or a function of two objects. `out` is an array for the result, which may be `obj`.
        """
        if _is_array(obj) and op in OPS and _reducible(obj.dtype):
            return self._reduce_array(obj, op, out, timeout)
        if out is not None:
            self._native.decline("out= is for arrays of numbers")
            raise TypeError("out= is for arrays of 4 and 8 byte numbers and named operations")
        return _folded(self.allgather(obj, timeout=timeout), op)

    def _reduce_array(self, obj, op, out, timeout):
        numpy = _numpy()

        def prepare():
            place = numpy.empty(obj.shape, obj.dtype) if out is None else out
            if place.dtype != obj.dtype or place.shape != obj.shape:
                raise ValueError(
                    f"out is {place.dtype}{place.shape}, and the array {obj.dtype}{obj.shape}"
                )
            flags = place.flags
            if not (flags.c_contiguous and flags.writeable and flags.aligned):
                raise ValueError("out must be contiguous, writable and aligned")
            if op in ("and", "or", "xor") and obj.dtype.kind == "f":
                raise TypeError(f"{op} is for integers, not {obj.dtype}")
            return place

        place = self._encoded(prepare)
        given = _signature(obj, op)
        all = self._native.all_gather_word(given, timeout)
        if any(other != given for other in all):
            from ._errors import DisagreementError

            other = next(rank for rank, word in enumerate(all) if word != given)
            raise DisagreementError(
                f"rank {self.rank} gave {obj.dtype}{obj.shape} to allreduce({op!r}), and rank "
                f"{other} another type, shape or operation",
                rank=other,
                op="allreduce",
            )
        if place is not obj:
            place[...] = obj
        self._native.all_reduce(place.reshape(-1), op, timeout)
        return place

    def reduce(self, obj, op="sum", root=0, *, out=None, timeout=None):
        """Combines all ranks' objects at `root`, as `allreduce` does; `None` elsewhere."""
        self._check_root(root)
        if _is_array(obj) and op in OPS and _reducible(obj.dtype):
            result = self.allreduce(obj, op, timeout=timeout)
            return _stored(out, result) if self.rank == root else None
        all = self.gather(obj, root, timeout=timeout)
        return None if all is None else _stored(out, _folded(all, op))

    def scan(self, obj, op="sum", *, out=None, timeout=None):
        """Combines the objects of all ranks up to this one, in the order of ranks."""
        return _stored(out, _folded(self.allgather(obj, timeout=timeout)[: self.rank + 1], op))

    def exscan(self, obj, op="sum", *, out=None, timeout=None):
        """Combines the objects of all ranks before this one; `None` at rank 0."""
        before = self.allgather(obj, timeout=timeout)[: self.rank]
        return _stored(out, _folded(before, op)) if before else None

    def split(self, color, key=0, *, timeout=None):
        """Divides the team: ranks of one `color` (0 or more) form a team, in the order of `key`,
        then of their ranks. `None`: this rank is in none. All ranks call it."""

        def check():
            if color is not None and not 0 <= color < 2**64:
                raise ValueError(f"a color is 0 or more, not {color}")
            if not -(2**63) <= key < 2**63:
                raise ValueError(f"a key fits into 64 bits, not {key}")

        self._encoded(check)
        part = self._native.split(color, key + 2**63, timeout)
        return None if part is None else Team(part)


class Phase:
    """A phase of a program, as `World.phase` begins it. `seconds` is its time once it has ended."""

    def __init__(self, world, name):
        self._world, self._name = world, name
        self._native = None
        self.seconds = None

    def __enter__(self):
        self._native = _native.begin_phase(self._name)
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._world.sync()
        finally:
            self.seconds = self._native.end()


class World(Team):
    """All ranks of the job. `clump.world()` returns it."""

    def __init__(self, place):
        super().__init__(_native.NativeTeam())
        _, _, self.node, self.nnodes = place
        self._counts = {}

    def node_of(self, rank):
        """Returns the node of a rank."""
        node = _native.node_of(rank)
        if node is None:
            raise ValueError(f"there is no rank {rank} in a job of {self.size} ranks")
        return node

    def barrier(self, timeout=None):
        """Returns once all ranks have called it, and every update that any of them began before
        has happened, everywhere."""
        _native.barrier(timeout)

    def sync(self, timeout=None):
        """Waits until the updates that this rank began have happened."""
        _native.sync(timeout)

    def phase(self, name=""):
        """Returns a phase: a `with` block at whose end the updates that this rank began have
        happened.

            with w.phase("count") as phase:
                t.add(keys, 1)
            print(phase.seconds)

        Traces show it by the first eight bytes of its name, and `clump lab predict` says by how
        much it takes longer on a slower network.
        """
        return Phase(self, name)

    def poll(self):
        """Handles messages and remote calls that have arrived; returns how many. Never waits."""
        return _native.poll()

    def serve(self, seconds):
        """Handles remote calls for so many seconds."""
        _native.serve(seconds)

    def send(self, obj, dest, tag=0, *, timeout=None):
        """Sends an object or array to a rank, which takes it by `recv`. Does not wait for that."""
        _native.send_object(dest, 0, tag, obj, timeout)

    def recv(self, source=None, tag=None, *, timeout=None):
        """Waits for an object of that source and tag (`None`: of any), and returns it. Objects of
        one source are taken in the order in which they were sent."""
        return _native.recv(source, tag, timeout)[0]

    def recv_from(self, source=None, tag=None, *, timeout=None):
        """Waits as `recv` does; returns the object, its source and its tag."""
        return _native.recv(source, tag, timeout)

    async def arrival(self, source=None, tag=None):
        """Waits as `recv` does, in a coroutine: others of its event loop run meanwhile. A limit is
        `asyncio.wait_for`'s."""
        from . import _awaits

        while True:
            await _awaits.until(lambda: _native.probe(source, tag) is not None)
            try:
                return self.recv(source, tag, timeout=0)
            except ClumpTimeout:
                pass  # another coroutine has taken it

    def probe(self, source=None, tag=None):
        """Returns source, tag and bytes of the next such object, if it has arrived."""
        return _native.probe(source, tag)

    def _next(self, what):
        """Numbers collective creations: equal at all ranks, which make them in one order."""
        number = self._counts.get(what, 0)
        self._counts[what] = number + 1
        return number


def _reducible(dtype):
    return dtype.isnative and (dtype.kind, dtype.itemsize) in _NATIVE


_NATIVE = {("i", 4), ("i", 8), ("u", 1), ("u", 4), ("u", 8), ("f", 4), ("f", 8)}


def _signature(array, op):
    import zlib

    text = f"{array.dtype.str}{array.shape}{op}".encode()
    return zlib.crc32(text) << 32 | (array.size & 0xFFFFFFFF)


def _folded(objs, op):
    import functools
    import operator

    if callable(op):
        return functools.reduce(op, objs)
    if op in ("min", "max"):
        numpy = sys.modules.get("numpy")
        if numpy is not None and any(isinstance(obj, numpy.ndarray) for obj in objs):
            return functools.reduce(numpy.minimum if op == "min" else numpy.maximum, objs)
        return min(objs) if op == "min" else max(objs)
    functions = {
        "sum": operator.add,
        "prod": operator.mul,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
    }
    if op not in functions:
        raise ValueError(f"there is no operation {op!r}: use one of {', '.join(OPS)}, or a function")
    return functools.reduce(functions[op], objs)


def world():
    """Joins the job of this process if it has not yet, and returns it.

    The calling thread owns global arrays from then on. A process that `clump run` did not start is
    a job of one rank.
    """
    global _world
    if _world is not None and _native.is_joined():
        return _world
    with _lock:
        _name_agent()
        place = _native.join()
        if _world is None:
            _world = World(place)
            atexit.register(_leave)
            _report_failures(place[0], place[1])
    return _world


def _name_agent():
    """Names the package's launcher as the agent, where another engine has started this rank."""
    engines = ("PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
    if "CLUMP_AGENT" not in os.environ and any(name in os.environ for name in engines):
        from . import launcher

        os.environ["CLUMP_AGENT"] = launcher()


def _leave():
    """Ends this rank's part in the job; not after a failure, which ends the job."""
    _native.heap_leave()
    if _failed or _world is None:
        return
    try:
        _native.leave(_together)
    except KeyboardInterrupt:
        os._exit(130)
    except ClumpError:
        # What ended another rank is the launcher's to report.
        os._exit(1)
    except BaseException as error:  # of a handler
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(1)


def _report_failures(rank, nranks):
    """Makes exceptions that nothing handles name their rank, and end the job."""
    before = sys.excepthook

    def hook(kind, error, trace):
        global _failed
        _failed = True
        trace = _own(trace)
        if issubclass(kind, (RankDied, RankLeft, NodeLost)):
            # Another rank's failure is the cause: a line says where this one was.
            sys.stderr.write(f"clump: rank {rank} of {nranks} ends{_where(trace)}: {error}\n")
        elif issubclass(kind, KeyboardInterrupt):
            sys.stderr.write(f"clump: rank {rank} of {nranks} was interrupted{_where(trace)}\n")
        else:
            sys.stderr.write(f"clump: rank {rank} of {nranks} fails:\n")
            before(kind, error.with_traceback(trace), trace)
        _flush()
        if any(not thread.daemon for thread in threading.enumerate()[1:]) or "mpi4py.MPI" in sys.modules:
            # Threads that wait for other ranks would keep this process, and so the job; so would
            # MPI_Finalize, which waits for ranks that wait in clump.
            os._exit(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = hook
    of_threads = threading.excepthook

    def thread_hook(given):
        # As in Python, the end of a thread does not end the program.
        if given.exc_type is not SystemExit:
            sys.stderr.write(f"clump: a thread of rank {rank} of {nranks} fails:\n")
        of_threads(given)

    threading.excepthook = thread_hook


def _own(trace):
    """Returns the traceback from the program's first frame on."""
    here = os.path.dirname(os.path.abspath(__file__))
    begin = trace
    while begin is not None:
        name = begin.tb_frame.f_code.co_filename
        if name != "<frozen runpy>" and os.path.dirname(name) != here:
            return begin
        begin = begin.tb_next
    return trace


def _where(trace):
    """Returns the program's last line in a traceback."""
    here = os.path.dirname(os.path.abspath(__file__))
    last = None
    while trace is not None:
        if os.path.dirname(trace.tb_frame.f_code.co_filename) != here:
            last = trace
        trace = trace.tb_next
    if last is None:
        return ""
    return f" ({last.tb_frame.f_code.co_filename}, line {last.tb_lineno})"


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
