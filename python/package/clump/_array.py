"""Global arrays: elements at all ranks, read and updated by vectors of indexes."""

import warnings

import numpy as np

from . import _native
from ._world import world


def zeros(shape, dtype="f8", spread="block", *, timeout=None):
    """Allocates a global array of zeros: a collective.

    `spread` is "block" (one block for each rank), "cyclic" (element by element), or a number of
    elements (blocks of so many, around all ranks). `shape` is a length or a tuple. One index, a
    vector of them and a range address elements of the flattened array; a tuple of indexes, or of
    vectors, one for each dimension, as NumPy has it.
    """
    return GlobalArray(shape, dtype, spread, timeout=timeout)


def empty(shape, dtype="f8", spread="block", *, timeout=None):
    """Allocates a global array, as `zeros` does: memory of other ranks is always zeroed."""
    return GlobalArray(shape, dtype, spread, timeout=timeout)


class GlobalArray:
    """Elements at all ranks. Made by `clump.zeros`."""

    def __init__(self, shape, dtype, spread, *, timeout=None):
        w = world()
        dtype = np.dtype(dtype)
        shape = (int(shape),) if np.isscalar(shape) else tuple(int(n) for n in shape)
        if any(n < 0 for n in shape):
            raise ValueError(f"negative lengths: {shape}")
        if dtype.hasobject or not dtype.itemsize:
            raise TypeError(f"elements of type {dtype} cannot be in memory of other ranks")
        size = 1
        for n in shape:
            size *= n
        if spread == "block":
            block = 0
        elif spread == "cyclic":
            block = 1
        elif isinstance(spread, int) and spread > 0:
            block = spread
        else:
            raise ValueError(f'spread is "block", "cyclic" or a number of elements, not {spread!r}')
        kind = ord(dtype.kind) if dtype.isnative and dtype.kind in "iuf" else ord("V")
        self._a = _native.NativeArray(size, dtype, (kind, dtype.itemsize), block, timeout)
        # Operations on one element, where elements are numbers that have them.
        words = kind != ord("V") and (dtype.kind != "f" or dtype.itemsize in (4, 8))
        self._get_one = self._a.get_one if words else None
        self._put_one = self._a.put_one if words else None
        self._add_one = self._a.add_one if words else None
        self._w = w
        self.shape = shape
        self.size = size
        self.dtype = dtype
        self.spread = spread

    def __repr__(self):
        return f"<clump.GlobalArray {self.dtype} {self.shape}, spread={self.spread!r}>"

    def __len__(self):
        return self.shape[0] if self.shape else 0

    @property
    def local(self):
        """Elements of this rank, as a NumPy array: a view of their memory."""
        return self.near(self._w.rank)

    def near(self, rank):
        """Elements of a rank of this node, as a view of their memory."""
        view = self._a.view(rank)
        if view is None:
            raise ValueError(f"rank {rank} is on another node: use get() or indexes")
        return view

    def local_indexes(self):
        """Indexes of the elements of this rank, in the order of `local`."""
        return self.indexes_of(self._w.rank)

    def indexes_of(self, rank):
        """Indexes of the elements of a rank."""
        count, block = self._a.count(rank), self._a.block
        local = np.arange(count, dtype=np.int64)
        return (local // block * self._w.size + rank) * block + local % block

    def owner(self, index):
        """Rank of an element."""
        return self._a.place(index)[0]

    def _range(self, key):
        start, stop, step = key.indices(self.size)
        if step != 1:
            return None
        return start, max(start, stop)

    def _indexes(self, key):
        """Returns contiguous indexes, and the shape of the result."""
        if isinstance(key, tuple):
            key = self._flattened(key)
        if isinstance(key, slice):
            indexes = np.arange(*key.indices(self.size), dtype=np.int64)
            return indexes, indexes.shape
        array = np.asarray(key)
        if array.dtype == np.bool_:
            if array.shape != (self.size,):
                raise IndexError(f"a mask of {array.shape} for an array of {self.size} elements")
            array = np.flatnonzero(array)
        if array.size == 0:
            return np.empty(0, np.int64), array.shape
        if array.dtype.kind not in "iu":
            raise TypeError(f"indexes are integers, not {array.dtype}")
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.dtype.itemsize < 4 or not flat.dtype.isnative or not flat.flags.aligned:
            flat = flat.astype(np.int64)
        return flat, array.shape

    def _flattened(self, key):
        """Returns the flat indexes of a tuple of indexes, one for each dimension."""
        if len(key) != len(self.shape):
            raise IndexError(f"{len(key)} indexes for an array of {len(self.shape)} dimensions")
        parts = [np.asarray(part) for part in key]
        if any(part.dtype.kind not in "iu" for part in parts):
            raise TypeError("the indexes of a tuple are integers, or arrays of them")
        flat = np.int64(0)
        for at, (part, length) in enumerate(zip(parts, self.shape)):
            wrong = part[(part < -length) | (part >= length)]
            if wrong.size:
                raise IndexError(
                    f"index {wrong.flat[0]} is out of bounds for dimension {at} of {length} elements"
                )
            part = part.astype(np.int64)
            flat = flat * length + np.where(part < 0, part + length, part)
        return flat

    def _values(self, values, shape, *, exact=False):
        """Returns contiguous aligned values of this type: one, or one for each index."""
        array = np.asarray(values)
        if array.dtype != self.dtype:
            array = _converted(array, self.dtype)
        if array.size == 1 and not exact:
            array = array.reshape(1)
        else:
            array = np.broadcast_to(array, shape)
        return np.require(array, None, ["C", "A"]).reshape(-1)

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("elements of other ranks are copied: use local")
        all = self.get().reshape(self.shape)
        return all if dtype is None else all.astype(dtype)

    def __iter__(self):
        return iter(np.asarray(self))

    def __getitem__(self, key):
        one = self._get_one
        if type(key) is int and one is not None:
            return one(key)
        if isinstance(key, slice):
            run = self._range(key)
            if run is not None:
                return self.get(*run)
        return self.gather(key)

    def gather(self, indexes, *, out=None, timeout=None):
        """Reads elements by their indexes; `out` is an array for them."""
        flat, shape = self._indexes(indexes)
        if out is not None:
            if not out.flags.c_contiguous:
                raise ValueError("out must be contiguous (C order)")
            self._a.gather(flat, out.reshape(-1), timeout)
            return out
        place = np.empty(flat.shape, self.dtype)
        self._a.gather(flat, place, timeout)
        place = place.reshape(shape)
        return place[()] if shape == () else place

    def __setitem__(self, key, value):
        one = self._put_one
        if type(key) is int and one is not None:
            return one(key, value)
        if isinstance(key, slice):
            run = self._range(key)
            if run is not None:
                start, stop = run
                return self.put(start, np.broadcast_to(np.asarray(value), (stop - start,)))
        flat, shape = self._indexes(key)
        self._a.scatter(flat, self._values(value, shape), None)

    def get(self, start=0, stop=None, *, out=None, timeout=None):
        """Reads the elements from `start` up to `stop`; `out` is an array for them."""
        start, stop, _ = slice(start, stop).indices(self.size)
        if out is None:
            out = np.empty(max(0, stop - start), self.dtype)
        elif out.size != max(0, stop - start):
            raise ValueError(f"out has {out.size} elements, not {max(0, stop - start)}")
        self._a.get_run(start, out, timeout)
        return out

    def put(self, start, values, *, timeout=None):
        """Writes the elements from `start` on, and waits until they are written."""
        values = np.asarray(values)
        if start < 0:
            start += self.size
        if not 0 <= start <= self.size:
            raise IndexError(f"element {start} of an array of {self.size} elements")
        self._a.put_run(start, self._values(values, values.shape, exact=True), timeout)

    def update(self, indexes, values, op="add", *, timeout=None):
        """Begins to update elements by their indexes: add, min, max, and, or, xor. An index that
        occurs several times counts as often. Complete at `barrier` and `sync`; this rank's own
        later reads see it."""
        if type(indexes) is int and self._get_one is not None and timeout is None:
            return self._a.update_one(op, indexes, values)
        flat, shape = self._indexes(indexes)
        self._a.update(op, flat, self._values(values, shape), timeout)

    def add(self, indexes, values, *, timeout=None):
        """Begins to add to elements by their indexes, as `update` does."""
        one = self._add_one
        if type(indexes) is int and timeout is None and one is not None:
            return one(indexes, values)
        self.update(indexes, values, "add", timeout=timeout)

    def fetch_add(self, index, value=1, *, timeout=None):
        """Adds to an element; returns its former value."""
        return self._a.fetch("add", index, value, timeout)

    def swap(self, index, value, *, timeout=None):
        """Writes an element; returns its former value."""
        return self._a.fetch("swap", index, value, timeout)

    def compare_swap(self, index, old, new, *, timeout=None):
        """Writes `new` where the element is `old`; returns its former value."""
        return self._a.compare_swap(index, old, new, timeout)

    def free(self, *, timeout=None):
        """Frees the memory: a collective. Raises BufferError at all ranks while views of it live
        at one."""
        self._a.free(timeout)

    @property
    def closed(self):
        """True once the array was freed."""
        return self._a.closed

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.free()

    def __del__(self):
        native = getattr(self, "_a", None)
        try:
            if native is not None and not native.closed:
                warnings.warn(
                    f"{self!r} was never freed: its memory stays until the job ends",
                    ResourceWarning,
                    stacklevel=2,
                )
        except Exception:  # at the end of the process, or on another thread
            pass


def _converted(array, dtype):
    """Returns values of another type; numbers that change by it are an error."""
    if array.dtype.kind in "iub" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        if array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
            raise OverflowError(f"values of {array.dtype} do not fit into {dtype}")
        return array.astype(dtype)
    return array.astype(dtype, casting="same_kind")
