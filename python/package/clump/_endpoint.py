"""Endpoints and active messages: handlers are Python functions, run where a message arrives."""

import time

from . import _native, _world
from ._errors import ClumpTimeout

#: Longest wait between two looks at a condition that another thread may have made true, seconds.
_LOOK_SECONDS = 0.05


class Token:
    """A handler's view of its message, of use while the handler runs.

    `rank` is the rank that sent it, `source` the name of its endpoint.
    """

    __slots__ = ("_native",)

    def __init__(self, native):
        self._native = native

    @property
    def rank(self):
        """The rank that sent the message."""
        return self._native.rank

    @property
    def source(self):
        """The name of the endpoint that sent the message."""
        return self._native.source

    def reply(self, number, *words, payload=None):
        """Replies to a request, once: handler `number` of its sender gets the words and the
        payload. It is sent when this handler has returned."""
        self._native.reply(number, list(words), _owned(payload))

    def request(self, dest, number, *words, payload=None):
        """Sends a request to a destination of this endpoint, when this handler has returned."""
        self._native.request(dest, number, list(words), _owned(payload))


class Endpoint:
    """A place to which ranks send active messages (paper 000, section 2).

        ep = clump.Endpoint()
        names = w.allgather(ep.name)
        right = ep.map(names[(w.rank + 1) % w.size])

        @ep.handler(1)
        def add(token, words, payload):
            token.reply(2, words[0] + 1)

    A message has up to eight words, integers from 0 to 2**64 - 1, and a payload of up to
    `max_payload` bytes. Handlers run in the thread that waits or polls, in any wait of clump; they
    may reply and request by their token, and may not wait. What a handler raises, the wait raises
    that ran it, or another one of this rank. Messages that cannot be delivered come back (`on_returned`).
    """

    def __init__(self, tag=0):
        _world.world()
        self._native = _native.NativeEndpoint(tag)

    @property
    def name(self):
        """The name, an integer, by which others map the endpoint."""
        return self._native.name

    @property
    def max_payload(self):
        """Most bytes of a payload."""
        return self._native.max_payload

    def map(self, name, tag=0, *, ordered=False):
        """Returns the endpoint of that name as a destination. `tag` is the access right that it was
        opened with; messages with another one come back. `ordered`: messages to it are handled in
        the order in which they were sent, also between nodes."""
        return self._native.map(name, tag, ordered)

    def unmap(self, dest):
        """Removes a destination."""
        self._native.unmap(dest)

    def handler(self, number):
        """Sets the handler of a number from 1 to 255: a function of a token, a tuple of words and
        the payload, bytes or an array of bytes."""

        def set_handler(function):
            def run(token, words, payload):
                return function(Token(token), words, payload)

            self._native.set_handler(number, run)
            return function

        return set_handler

    def on_returned(self, function):
        """Sets the handler of messages that come back: a function of the rank that they were sent
        to, the reason, whether it was a reply, the handler's number, words and payload."""
        self._native.on_returned(function)
        return function

    def request(self, dest, number, *words, payload=None, timeout=None):
        """Sends a request: handler `number` there gets the words and the payload, `bytes` or a
        contiguous array. Waits for room."""
        self._native.request(dest, number, list(words), payload, timeout)

    def poll(self):
        """Handles what has arrived, without waiting. Returns how many messages."""
        return self._native.poll()

    def wait(self, until=None, timeout=None):
        """Waits until a message has been handled; with `until`, a function, until that is true."""
        if until is None:
            self._native.wait(timeout)
            return
        end = None if timeout is None else time.monotonic() + timeout
        while not until():
            left = _LOOK_SECONDS if end is None else min(_LOOK_SECONDS, end - time.monotonic())
            try:
                self._native.wait(max(left, 0.0))
            except ClumpTimeout:
                if end is not None and time.monotonic() >= end and not until():
                    raise

    async def arrival(self, until):
        """Waits as `wait(until)` does, in a coroutine: others of its event loop run meanwhile.
        Handlers run in the loop's thread."""
        from . import _awaits

        await _awaits.until(until)

    def drain(self, timeout=None):
        """Waits until all requests of this endpoint have been handled or have come back."""
        self._native.drain(timeout)

    def close(self):
        """Closes the endpoint: messages to it come back to their senders from now on."""
        self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _owned(payload):
    return None if payload is None else bytes(payload)
