"""Awaitables: an event loop sleeps on an eventfd that messages ring, whoever takes them in. From the
first of them on, a thread takes messages in while the loop sleeps; remote calls run in the loop's
thread."""

import asyncio
import atexit
import threading
import weakref

from . import _native

_wakers = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_thread = None
#: The error that has ended the thread, such as the death of a rank.
_failure = None


class _Waker:
    """The eventfd of an event loop, and what its coroutines wait for."""

    def __init__(self, loop):
        self.waiting = {}
        self.alarm = _native.NativeAlarm()
        loop.add_reader(self.alarm.fileno(), self.wake)

    def wake(self):
        """Takes messages in, runs remote calls, and wakes the coroutines that can go on."""
        self.alarm.clear()
        failure = _failure
        try:
            _native.poll()
        except BaseException as error:
            failure = error
        for future, is_done in list(self.waiting.items()):
            if future.done():
                continue
            try:
                if failure is not None:
                    future.set_exception(failure)
                elif is_done() or _native.has_failed():
                    future.set_result(None)
            except BaseException as error:
                future.set_exception(error)


def _watch():
    global _failure
    try:
        _native.watch()
    except BaseException as error:
        _failure = error
    for waker in list(_wakers.values()):
        waker.alarm.ring()


def _end():
    try:
        _native.end_watch()
    finally:
        _thread.join()


async def until(is_done):
    """Returns once `is_done()` is true, or a message has failed."""
    _native.poll()
    if is_done() or _native.has_failed():
        return
    waker = _waker(asyncio.get_running_loop())
    if _failure is not None:
        raise _failure
    future = asyncio.get_running_loop().create_future()
    waker.waiting[future] = is_done
    try:
        await future
    finally:
        del waker.waiting[future]


def _waker(loop):
    """Returns what wakes a loop, and begins the thread."""
    global _thread
    with _lock:
        waker = _wakers.get(loop)
        if waker is None:
            waker = _wakers[loop] = _Waker(loop)
            # For what has come before the eventfd was there.
            waker.alarm.ring()
        if _thread is None:
            _thread = threading.Thread(target=_watch, name="clump.watch", daemon=True)
            _thread.start()
            atexit.register(_end)
    return waker
