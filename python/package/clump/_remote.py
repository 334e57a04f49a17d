"""Remote calls: functions of a name, executed at another rank while that waits or polls."""

import itertools
import pickle
import threading
import time
import types

from . import _codec, _native
from ._errors import ClumpError, RemoteError

_handlers = {}
_numbers = itertools.count(1)
_OBJECT, _CALL, _ONE_WAY, _ANSWER = range(4)
#: Calls whose functions are not registered yet: a rank may be behind its callers.
_early = []
_early_lock = threading.Lock()
_EARLY_SECONDS = 5.0


def handler(function=None, *, name=None):
    """Registers a function for remote calls, by its name: all ranks register the same.

        @clump.handler
        def double(x): return 2 * x

        double(4)                       # here
        clump.call(double, 1, 4)        # at rank 1

    It runs at the called rank while that waits in clump, or polls. It may send, and may not wait.
    """
    if function is None:
        return lambda function: handler(function, name=name)
    key = name or getattr(function, "__qualname__", None) or repr(function)
    known = _handlers.get(key)
    if known is not None and not _may_replace(known, function):
        raise ValueError(f"a remote function of the name {key!r} is registered; give another name=")
    _handlers[key] = function
    if _early:
        retry()
    try:
        function.__clump_name__ = key
    except AttributeError:
        pass
    return function


def _may_replace(known, function):
    """Returns true for another registration of a function, and for the next execution of a cell."""
    old, new = (getattr(each, "__code__", each) for each in (known, function))
    if old is new:
        return True
    import os

    files = [getattr(code, "co_filename", "") for code in (old, new)]
    return all(file and not os.path.exists(file) for file in files)


def _name(function):
    if isinstance(function, str):
        return function
    name = getattr(function, "__clump_name__", None) or getattr(function, "__qualname__", None)
    if name not in _handlers:
        raise ValueError(f"{function!r} is not registered: decorate it with @clump.handler")
    return name


class PendingCall:
    """A remote call that was begun."""

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, number, rank, name):
        self._number, self._rank, self._name = number, rank, name
        self._answer = None

    def done(self):
        """Returns true if the answer has come."""
        if self._answer is None:
            _native.poll()
        return self._answer is not None or _native.has_answer(self._number)

    def __await__(self):
        """Waits for the result in a coroutine: others of its event loop run meanwhile."""
        from . import _awaits

        if self._answer is None:
            yield from _awaits.until(lambda: _native.has_answer(self._number)).__await__()
        return self.wait()

    def __del__(self):
        if self._answer is None:
            try:
                _native.forget_answer(self._number)
            except (AttributeError, TypeError):
                pass  # at the end of the process

    def wait(self, timeout=None):
        """Waits for the result; an exception of the function is raised here as RemoteError."""
        if self._answer is None:
            self._answer = _read(_native.answer(self._number, self._rank, timeout))
        good, value, trace = self._answer
        if good:
            return value
        text = f"{self._name} failed at rank {self._rank}:\n{trace.rstrip()}"
        error = RemoteError(text, rank=self._rank, op=self._name, remote_traceback=trace)
        raise error from (value if isinstance(value, BaseException) else None)


def _read(data):
    """Returns an answer: whether the call was good, its value or exception, and the traceback."""
    try:
        good, value, trace = _codec.loads(data)
    except BaseException as error:
        return False, error, f"its result cannot be read here: {error!r}"
    if good:
        return good, value, trace
    try:
        return good, pickle.loads(value), trace
    except BaseException:
        return good, None, trace


def start(function, rank, *args, **kwargs):
    """Begins a remote call; `wait()` of what it returns gives the result, with a limit if wanted."""
    name, number = _name(function), next(_numbers)
    _native.send_object(rank, _CALL, number, (name, args, kwargs))
    return PendingCall(number, rank, name)


def call(function, rank, *args, **kwargs):
    """Calls a function at a rank, and waits for its result."""
    return start(function, rank, *args, **kwargs).wait()


def notify(function, rank, *args, **kwargs):
    """Calls a function at a rank, without an answer. If it fails there, that rank reports it."""
    _native.send_object(rank, _ONE_WAY, 0, (_name(function), args, kwargs))


def dispatch(source, kind, number, data):
    """Executes a call that has arrived, and answers it. The extension module calls it."""
    try:
        name, args, kwargs = _codec.loads(data)
    except BaseException as error:
        if kind == _ONE_WAY:
            raise
        _refuse(source, number, error)
        return
    if name not in _handlers:
        ends = time.monotonic() + _EARLY_SECONDS
        with _early_lock:
            _early.append((ends, source, kind, number, name, args, kwargs))
        _native.note_early(True)
        return
    _execute(source, kind, number, name, args, kwargs)


def retry():
    """Executes calls whose functions have been registered meanwhile; others end with an error."""
    now = time.monotonic()
    with _early_lock:
        calls = _early[:]
        _early.clear()
    for ends, *call in calls:
        if call[3] in _handlers or now > ends:
            _execute(*call)
        else:
            with _early_lock:
                _early.append((ends, *call))
    _native.note_early(bool(_early))


def _execute(source, kind, number, name, args, kwargs):
    try:
        function = _handlers.get(name)
        if function is None:
            raise ClumpError(f"no remote function {name!r} is registered at this rank")
        value = function(*args, **kwargs)
    except BaseException as error:
        if kind == _ONE_WAY:
            raise
        _refuse(source, number, error)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            # It is this rank that is to end: the caller hears of it, and the wait here raises it.
            raise
        return
    if kind == _ONE_WAY:
        return
    try:
        parts = _codec.dumps((True, value, None))
    except BaseException as error:
        _refuse(source, number, error)
        return
    _native.send(source, _ANSWER, number, parts)


def _refuse(source, number, error):
    """Answers a call with its exception: pickled by itself, since it may be one that cannot be read
    where the call came from."""
    try:
        body = _codec.encoder().dumps(error, protocol=5)
    except BaseException:
        body = pickle.dumps(None)
    _native.send(source, _ANSWER, number, _codec.dumps((False, body, _trace(error))))


def _trace(error):
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
