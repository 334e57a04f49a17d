"""Connections to workers that never block: a worker that does not read holds nobody up."""

import collections
import os
import struct

_SHORT = struct.Struct("!i")
_LONG = struct.Struct("!Q")
#: Bytes of one read.
_READ = 1 << 18


class Link:
    """The client's end of a connection whose other end is a `multiprocessing.connection.Connection`.

    Messages have its framing: their length in 4 bytes, or -1 and the length in 8.
    """

    def __init__(self, connection):
        self._connection = connection
        self.fd = connection.fileno()
        os.set_blocking(self.fd, False)
        self._out = collections.deque()
        self._in = bytearray()

    @property
    def waits(self):
        """True while bytes wait for room."""
        return bool(self._out)

    def send(self, body):
        """Sends a message, as far as there is room; the rest waits for `push`."""
        size = len(body)
        head = _SHORT.pack(size) if size < 2**31 else _SHORT.pack(-1) + _LONG.pack(size)
        self._out += (memoryview(head), memoryview(body))
        self.push()

    def push(self):
        """Sends what waits, as far as there is room; nothing to a worker that has gone, whose last
        results `receive` returns, and then its end."""
        while self._out:
            part = self._out[0]
            try:
                sent = os.write(self.fd, part) if len(part) else 0
            except BlockingIOError:
                return
            except ConnectionError:
                self._out.clear()
                return
            if sent == len(part):
                self._out.popleft()
            else:
                self._out[0] = part[sent:]

    def receive(self):
        """Reads what has come; returns the messages that are whole.

        Raises EOFError, or ConnectionError, once the other end has gone.
        """
        try:
            read = os.read(self.fd, _READ)
        except BlockingIOError:
            return []
        if not read:
            raise EOFError
        self._in += read
        messages = []
        while True:
            at, size = _framed(self._in)
            if size is None or len(self._in) < at + size:
                return messages
            messages.append(bytes(self._in[at : at + size]))
            del self._in[: at + size]

    def close(self):
        """Closes the connection."""
        self._connection.close()


def _framed(data):
    """Returns where the first message begins, and its length, if that has come."""
    if len(data) < _SHORT.size:
        return 0, None
    (size,) = _SHORT.unpack_from(data)
    if size >= 0:
        return _SHORT.size, size
    if len(data) < _SHORT.size + _LONG.size:
        return 0, None
    return _SHORT.size + _LONG.size, _LONG.unpack_from(data, _SHORT.size)[0]
