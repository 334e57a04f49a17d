"""A dictionary over all ranks: each key is stored at one rank, its owner."""

import zlib

from . import _remote
from ._world import world

_parts = {}


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
    part = _parts[number]
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
    return None


class Dict:
    """A dictionary over all ranks; all ranks make it, in the same order.

    Each key is at the rank that its hash names (`owner`), which executes operations while it waits
    in clump or polls: a rank that computes for long delays those that need its keys.
    """

    def __init__(self):
        self._w = world()
        self._number = self._w._next("dict")
        _parts[self._number] = {}
        self._w.barrier()

    def owner(self, key):
        """Rank of a key."""
        return _hash(key) % self._w.size

    @property
    def local(self):
        """The part of this rank: an ordinary dictionary."""
        return _parts[self._number]

    def _call(self, op, key, value=None):
        owner = self.owner(key)
        if owner == self._w.rank:
            return _serve(self._number, op, key, value)
        return _remote.call(_serve, owner, self._number, op, key, value)

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

    def get(self, key, default=None):
        """Returns the value of a key, or `default`."""
        found, value = self._call("get", key)
        return value if found else default

    def setdefault(self, key, default=None):
        """Returns the value of a key, which becomes `default` if there is none."""
        return self._call("setdefault", key, default)

    def pop(self, key, *default):
        """Removes a key, and returns its value, or `default` if there is none."""
        found, value = self._call("pop", key)
        if found:
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def add(self, key, value=1):
        """Adds to the value of a key, 0 if there is none; returns the sum. Atomic."""
        return self._call("add", key, value)

    def _by_owner(self, keys):
        groups = {}
        for key in keys:
            groups.setdefault(self.owner(key), []).append(key)
        return groups

    def get_many(self, keys, default=None):
        """Returns the values of keys, by one call for each rank."""
        keys = list(keys)
        groups = self._by_owner(keys)
        calls = {
            owner: _remote.start(_serve, owner, self._number, "many", None, mine)
            for owner, mine in groups.items()
        }
        values = {}
        for owner, mine in groups.items():
            for key, (found, value) in zip(mine, calls[owner].wait()):
                values[key] = value if found else default
        return [values[key] for key in keys]

    def update(self, items):
        """Sets keys, by one call for each rank."""
        items = dict(items)
        calls = [
            _remote.start(_serve, owner, self._number, "update", None, {k: items[k] for k in mine})
            for owner, mine in self._by_owner(items).items()
        ]
        for begun in calls:
            begun.wait()
