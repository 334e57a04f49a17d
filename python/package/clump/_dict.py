"""A dictionary over all ranks: each key is stored at one rank, its owner."""

import threading
import types
import zlib

from . import _remote
from ._world import world

_parts = {}
#: Threads of this rank use its part, and calls of other ranks.
_lock = threading.RLock()


def _hash(key):
    """Returns a number that is equal at all ranks, and for keys that are equal."""
    if isinstance(key, str):
        return zlib.crc32(key.encode("utf-8", "surrogatepass"))
    if isinstance(key, (bytes, bytearray)):
        return zlib.crc32(key)
    if key is None:
        return 0x1505
    if isinstance(key, tuple):
        number = 1000003
        for item in key:
            number = (number * 31 + _hash(item)) & 0xFFFFFFFF
        return number
    if isinstance(key, frozenset):
        return sum(_hash(item) for item in key) & 0xFFFFFFFF
    if isinstance(key, (int, float, complex)) or type(key).__module__ == "numpy":
        return hash(key) & 0xFFFFFFFF
    raise TypeError(f"keys are numbers, text, bytes, None and tuples of them, not {type(key)}")


@_remote.handler(name="clump.Dict")
def _serve(number, op, key, value):
    with _lock:
        return _executed(_parts[number], op, key, value)


def _executed(part, op, key, value):
    if op == "get":
        return (True, part[key]) if key in part else (False, None)
    if op == "set":
        part[key] = value
    elif op == "del":
        return part.pop(key, _serve) is not _serve
    elif op == "setdefault":
        return part.setdefault(key, value)
    elif op == "pop":
        return (True, part.pop(key)) if key in part else (False, None)
    elif op == "many":
        return [(True, part[key]) if key in part else (False, None) for key in value]
    elif op == "update":
        part.update(value)
    elif op == "add":
        part[key] = part.get(key, 0) + value
        return part[key]
    elif op == "len":
        return len(part)
    elif op == "items":
        return list(part.items())
    elif op == "clear":
        part.clear()
    return None


class Dict:
    """A dictionary over all ranks; all ranks make it, in the same order.

    Each key is at the rank that its hash names (`owner`), which executes operations while it waits
    in clump or polls: a rank that computes for long delays those that need its keys.
    """

    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, *, timeout=None):
        self._w = world()
        self._number = self._w._next("dict")
        _parts[self._number] = {}
        self._w.barrier(timeout)

    def owner(self, key):
        """Rank of a key."""
        return _hash(key) % self._w.size

    @property
    def local(self):
        """The part of this rank: an ordinary dictionary."""
        return _parts[self._number]

    def _call(self, op, key, value=None, timeout=None):
        return self._at(self.owner(key), op, key, value).wait(timeout)

    def _at(self, rank, op, key=None, value=None):
        """Begins an operation of a rank's part."""
        if self._number is None:
            raise ValueError("this dictionary was freed")
        if rank == self._w.rank:
            return _Done(_serve(self._number, op, key, value))
        return _remote.start(_serve, rank, self._number, op, key, value)

    def _everywhere(self, op, timeout=None):
        """Executes an operation at all ranks; returns the results by rank."""
        begun = [self._at(rank, op) for rank in range(self._w.size)]
        return [each.wait(timeout) for each in begun]

    def __getitem__(self, key):
        found, value = self._call("get", key)
        if not found:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self._call("set", key, value)

    def __delitem__(self, key):
        if not self._call("del", key):
            raise KeyError(key)

    def __contains__(self, key):
        return self._call("get", key)[0]

    def __len__(self):
        return sum(self._everywhere("len"))

    def __iter__(self):
        return iter([key for key, _ in self.items()])

    def items(self, *, timeout=None):
        """Returns a list of all keys with their values: of each rank as it is when it is asked."""
        return [item for part in self._everywhere("items", timeout) for item in part]

    def clear(self, *, timeout=None):
        """Removes all keys. One rank calls it; the others see it after a barrier."""
        self._everywhere("clear", timeout)

    def free(self, *, timeout=None):
        """Gives the memory back: a collective. Nothing may use the dictionary from then on."""
        number, self._number = self._number, None
        self._w.barrier(timeout)
        _parts.pop(number, None)

    def get(self, key, default=None, *, timeout=None):
        """Returns the value of a key, or `default`."""
        found, value = self._call("get", key, timeout=timeout)
        return value if found else default

    def setdefault(self, key, default=None, *, timeout=None):
        """Returns the value of a key, which becomes `default` if there is none."""
        return self._call("setdefault", key, default, timeout)

    def pop(self, key, *default, timeout=None):
        """Removes a key, and returns its value, or `default` if there is none."""
        found, value = self._call("pop", key, timeout=timeout)
        if found:
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def add(self, key, value=1, *, timeout=None):
        """Adds to the value of a key, 0 if there is none; returns the sum. Atomic."""
        return self._call("add", key, value, timeout)

    def _by_owner(self, keys):
        groups = {}
        for key in keys:
            groups.setdefault(self.owner(key), []).append(key)
        return groups

    def get_many(self, keys, default=None, *, timeout=None):
        """Returns the values of keys, by one call for each rank."""
        keys = list(keys)
        groups = self._by_owner(keys)
        calls = {owner: self._at(owner, "many", None, mine) for owner, mine in groups.items()}
        values = {}
        for owner, mine in groups.items():
            for key, (found, value) in zip(mine, calls[owner].wait(timeout)):
                values[key] = value if found else default
        return [values[key] for key in keys]

    def update(self, items, *, timeout=None):
        """Sets keys, by one call for each rank."""
        items = dict(items)
        calls = [
            self._at(owner, "update", None, {key: items[key] for key in mine})
            for owner, mine in self._by_owner(items).items()
        ]
        for begun in calls:
            begun.wait(timeout)


class _Done:
    """An operation of this rank's own part."""

    def __init__(self, value):
        self._value = value

    def wait(self, timeout=None):
        """Returns its result."""
        return self._value
