"""Shared virtual memory: ordinary NumPy arrays at the same address in all ranks of all nodes.

    from clump import svm
    grid = svm.empty((1000, 1000), 'f8')
    grid[w.rank] = 1
    svm.barrier()          # all ranks see what all have written

Programs without races see what they would see in one process: a barrier, or a lock that is handed
on, orders writes. The heap is opened by the first call, with `CLUMP_SVM_HEAP` bytes of address
space (64 GiB), and is not given back before the job ends.
"""

import os

import numpy as np

from . import _native
from ._world import world

_open = False


def _opened():
    global _open
    if not _open:
        # Its handlers of page faults come after those of faulthandler, which installs its own once.
        import faulthandler
        import sys

        if not faulthandler.is_enabled() and sys.stderr is not None:
            try:
                faulthandler.enable()
            except (OSError, ValueError, AttributeError):
                faulthandler.enable(open(os.devnull, "w"))
        world()
        _native.open(int(os.environ.get("CLUMP_SVM_HEAP", 64 << 30)))
        _open = True


def empty(shape, dtype="f8", home="block", *, timeout=None):
    """Allocates an array of zeros that all ranks share: a collective.

    `home` says which node keeps a page: "block", "cyclic", "first-write", or a node's number.
    """
    _opened()
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError("Python objects cannot be in shared memory")
    shape = (int(shape),) if np.isscalar(shape) else tuple(int(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"negative lengths: {shape}")
    home = (home, 0) if isinstance(home, str) else ("node", int(home))
    return _native.alloc(dtype, list(shape), dtype.itemsize, home, timeout)


zeros = empty


def barrier(timeout=None):
    """Returns once all ranks have called it; each then sees what the others had written."""
    _opened()
    _native.heap_barrier(timeout)


def prefetch(array, *, write=False):
    """Fetches the pages of an array, or of a part of one. System calls (`tofile`, `readinto`) on
    pages that are not here fail with EFAULT: call this before them (`write=True` where the call
    stores)."""
    _opened()
    span = np.asarray(array)
    if not span.flags.c_contiguous:
        raise ValueError("a contiguous part of an array expected")
    _native.touch(span, write)
    return array


class Locks:
    """Locks of the heap: whoever takes one sees what its holders wrote. A collective makes them.

        locks = svm.Locks(8)
        with locks[3]: ...
    """

    def __init__(self, count=1, *, timeout=None):
        _opened()
        self._native = _native.NativeHeapLocks(count, timeout)
        self._count = count

    def __len__(self):
        return self._count

    def __getitem__(self, number):
        if not 0 <= number < self._count:
            raise IndexError(f"lock {number} of {self._count}")
        return _Held(self._native, number)


class Lock:
    """One lock of the heap, as `Locks` has many."""

    def __init__(self, *, timeout=None):
        self._locks = Locks(1, timeout=timeout)

    def __enter__(self):
        self._locks._native.acquire(0)
        return self

    def __exit__(self, kind, error, trace):
        self._locks._native.release(0)


class _Held:
    def __init__(self, native, number):
        self._native, self._number = native, number

    def __enter__(self):
        self._native.acquire(self._number)
        return self

    def __exit__(self, kind, error, trace):
        self._native.release(self._number)
