"""Locks of all ranks."""

from . import _native
from ._world import world

_sets = 0


class Lock:
    """A lock that one rank at a time holds; all ranks make it, in the same order.

        lock = clump.Lock()
        with lock:
            table[0] = table[0] + 1

    Ranks that wait form a queue and send nothing. What its holder wrote is there for the next one.
    """

    def __init__(self, *, timeout=None):
        global _sets
        number = world()._next("lock")
        if number >= _sets:
            _sets = _native.export_locks(timeout)
        self._native = _native.NativeLock(number)

    def acquire(self, timeout=None):
        """Waits for the lock; returns false if `timeout` seconds have passed (0: tries once)."""
        return self._native.acquire(timeout)

    def release(self):
        """Gives the lock back, when everything that this rank began has happened."""
        self._native.release()

    @property
    def held(self):
        """True while this rank holds it."""
        return self._native.held

    def __enter__(self):
        self._native.acquire(None)
        return self

    def __exit__(self, kind, error, trace):
        self._native.release()
