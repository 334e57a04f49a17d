"""Remote calls: functions of a name, executed at another rank while that waits or polls."""

import itertools
import time

from . import _codec, _native
from ._errors import ClumpError, RemoteError

_handlers = {}
_numbers = itertools.count(1)
_OBJECT, _CALL, _ONE_WAY, _ANSWER = range(4)
#: Calls whose functions are not registered yet: a rank may be behind its callers.
_early = []
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
    if known is not None and getattr(known, "__code__", known) is not getattr(
        function, "__code__", function
    ):
        raise ValueError(f"a remote function of the name {key!r} is registered; give another name=")
    _handlers[key] = function
    if _early:
        retry()
    try:
        function.__clump_name__ = key
    except AttributeError:
        pass
    return function


def _name(function):
    if isinstance(function, str):
        return function
    name = getattr(function, "__clump_name__", None) or getattr(function, "__qualname__", None)
    if name not in _handlers:
        raise ValueError(f"{function!r} is not registered: decorate it with @clump.handler")
    return name


class PendingCall:
    """A remote call that was begun."""

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

    def wait(self, timeout=None):
        """Waits for the result; an exception of the function is raised here as RemoteError."""
        if self._answer is None:
            self._answer = _codec.loads(_native.answer(self._number, self._rank, timeout))
        good, value, trace = self._answer
        if good:
            return value
        text = f"{self._name} failed at rank {self._rank}:\n{trace.rstrip()}"
        error = RemoteError(text, rank=self._rank, op=self._name, remote_traceback=trace)
        raise error from (value if isinstance(value, BaseException) else None)


def start(function, rank, *args, **kwargs):
    """Begins a remote call; `wait()` of what it returns gives the result."""
    name, number = _name(function), next(_numbers)
    _native.send(rank, _CALL, number, _codec.dumps((name, args, kwargs)))
    return PendingCall(number, rank, name)


def call(function, rank, *args, **kwargs):
    """Calls a function at a rank, and waits for its result."""
    return start(function, rank, *args, **kwargs).wait()


def notify(function, rank, *args, **kwargs):
    """Calls a function at a rank, without an answer. If it fails there, that rank reports it."""
    _native.send(rank, _ONE_WAY, 0, _codec.dumps((_name(function), args, kwargs)))


def dispatch(source, kind, number, data):
    """Executes a call that has arrived, and answers it. The extension module calls it."""
    try:
        name, args, kwargs = _codec.loads(data)
    except BaseException as error:
        if kind == _ONE_WAY:
            raise
        _answer(source, number, (False, error, _trace(error)))
        return
    if name not in _handlers:
        _early.append((time.monotonic() + _EARLY_SECONDS, source, kind, number, name, args, kwargs))
        _native.note_early(True)
        return
    _execute(source, kind, number, name, args, kwargs)


def retry():
    """Executes calls whose functions have been registered meanwhile; others end with an error."""
    calls, now = _early[:], time.monotonic()
    _early.clear()
    for ends, *call in calls:
        if call[3] in _handlers or now > ends:
            _execute(*call)
        else:
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
        _answer(source, number, (False, error, _trace(error)))
        return
    if kind != _ONE_WAY:
        _answer(source, number, (True, value, None))


def _answer(source, number, answer):
    try:
        parts = _codec.dumps(answer)
    except BaseException as error:
        trace = _trace(error) if answer[0] else answer[2]
        parts = _codec.dumps((False, None, trace))
    _native.send(source, _ANSWER, number, parts)


def _trace(error):
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
