"""Objects as bytes: pickle 5, with large buffers beside the pickle, not copied into it. Small plain
values, such as dictionaries of numbers and strings, are encoded by the extension module."""

import pickle as _pickle
import struct
import sys

from . import _native

_ALIGN = 64
_FEW = struct.Struct("<Q")
#: Head of an encoding without buffers.
_NONE = _FEW.pack(0)
#: Head of a plain value.
_PLAIN = 2**64 - 1
_package = sys.modules["clump"].__dict__


def encoder():
    """Returns what encodes objects: pickle, or the module that the program has set by
    `clump.pickle = cloudpickle`."""
    return _package.get("pickle", _pickle)


def dumps(obj):
    """Returns the parts of an object's encoding: bytes and contiguous arrays."""
    plain = _native.plain_bytes(obj)
    return pickled(obj) if plain is None else [plain]


def pickled(obj):
    """Returns the parts of the encoding of an object that is no plain value."""
    buffers = []
    data = encoder().dumps(obj, protocol=5, buffer_callback=buffers.append)
    if not buffers:
        return [_NONE, data]
    raws = [_raw(buffer) for buffer in buffers]
    lens = [len(data), *(_size(raw) for raw in raws)]
    head = struct.pack(f"<Q{len(lens)}Q", len(raws), *lens)
    parts = [head, data]
    at = len(head) + len(data)
    for raw, size in zip(raws, lens[1:]):
        pad = -at % _ALIGN
        if pad:
            parts.append(bytes(pad))
        parts.append(raw)
        at += pad + size
    return parts


def _raw(buffer):
    raw = buffer.raw()
    numpy = sys.modules.get("numpy")
    return bytes(raw) if numpy is None else numpy.frombuffer(raw, numpy.uint8)


def _size(raw):
    return len(raw)


def loads(data):
    """Returns the object of an encoding; buffers of it share memory with `data`."""
    view = memoryview(data)
    (count,) = _FEW.unpack_from(view)
    if count == 0:
        return _pickle.loads(view[8:])
    if count == _PLAIN:
        return _native.plain_value(data)
    lens = struct.unpack_from(f"<{count + 1}Q", view, 8)
    at = 8 * (count + 2)
    pickled = view[at : at + lens[0]]
    at += lens[0]
    buffers = []
    for size in lens[1:]:
        at += -at % _ALIGN
        buffers.append(view[at : at + size])
        at += size
    return _pickle.loads(pickled, buffers=buffers)
