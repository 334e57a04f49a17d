"""Connections between a client and its workers, with the framing of `multiprocessing.connection`."""

import collections
import os
import pickle
import struct

_SHORT = struct.Struct("!i")
_LONG = struct.Struct("!Q")
#: Bytes of one read.
_READ = 1 << 18
#: Parts of one write.
_PARTS = 64


#: Head of work: its kind and number. A task's body is pickled, a cell's is its text.
_WORK = struct.Struct("<cQ")
TASK, CELL = b"t", b"c"
#: Head of a reply: True for the pickled value alone, and the number of the work.
_REPLY = struct.Struct("<?Q")


def work_head(kind, number):
    """Returns the head of work, whose body follows."""
    return _WORK.pack(kind, number)


def read_work(message):
    """Returns kind, number and body of work."""
    kind, number = _WORK.unpack_from(message)
    return kind, number, message[_WORK.size :]


def reply(number, good, value, trace=None, output=""):
    """Returns a reply: whether the work was done, its value or exception, pickled, the traceback of
    the exception, and what was printed."""
    if good and not output:
        return _REPLY.pack(True, number) + value
    return _REPLY.pack(False, number) + pickle.dumps((good, value, trace, output), protocol=5)


def read_reply(message):
    """Returns number, whether the work was done, value or exception, traceback and output."""
    alone, number = _REPLY.unpack_from(message)
    body = message[_REPLY.size :]
    if alone:
        return number, True, body, None, ""
    return number, *pickle.loads(body)


def framed(parts):
    """Returns the parts of a message with its length before them: in 4 bytes, or -1 and 8 more."""
    size = sum(map(len, parts))
    head = _SHORT.pack(size) if size < 2**31 else _SHORT.pack(-1) + _LONG.pack(size)
    return (head, *parts)


class Inbox:
    """Messages that arrive, in the order of their bytes."""

    def __init__(self):
        self._in = bytearray()

    def read(self, fd):
        """Reads what has come, or waits for that where reads do; returns the messages that are
        whole.

        Raises EOFError, or ConnectionError, once the other end has gone.
        """
        try:
            read = os.read(fd, _READ)
        except BlockingIOError:
            return []
        if not read:
            raise EOFError
        self._in += read
        messages, begin = [], 0
        while True:
            at, size = _framed(self._in, begin)
            if size is None or len(self._in) < at + size:
                break
            messages.append(bytes(self._in[at : at + size]))
            begin = at + size
        del self._in[:begin]
        return messages


class Link:
    """The client's end of a connection, which never blocks: a worker that does not read holds
    nobody up."""

    def __init__(self, connection):
        self._connection = connection
        self.fd = connection.fileno()
        os.set_blocking(self.fd, False)
        self._out = collections.deque()
        self._inbox = Inbox()

    @property
    def waits(self):
        """True while bytes wait for room."""
        return bool(self._out)

    def put(self, *parts):
        """Adds a message, which `push` sends."""
        self._out.extend(framed(parts))

    def push(self):
        """Sends what waits, as far as there is room; nothing to a worker that has gone, whose last
        results `receive` returns, and then its end."""
        out = self._out
        while out:
            try:
                sent = os.writev(self.fd, [out[at] for at in range(min(len(out), _PARTS))])
            except BlockingIOError:
                return
            except ConnectionError:
                out.clear()
                return
            while out and sent >= len(out[0]):
                sent -= len(out.popleft())
            if sent:
                out[0] = memoryview(out[0])[sent:]

    def receive(self):
        """Reads what has come, as `Inbox.read` does."""
        return self._inbox.read(self.fd)

    def close(self):
        """Closes the connection."""
        self._connection.close()


def _framed(data, begin):
    """Returns where the message at `begin` begins, and its length, if that has come."""
    left = len(data) - begin
    if left < _SHORT.size:
        return begin, None
    (size,) = _SHORT.unpack_from(data, begin)
    if size >= 0:
        return begin + _SHORT.size, size
    if left < _SHORT.size + _LONG.size:
        return begin, None
    return begin + _SHORT.size + _LONG.size, _LONG.unpack_from(data, begin + _SHORT.size)[0]
