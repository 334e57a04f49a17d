"""Exceptions of clump: a class for each kind, with the rank and the operation."""


class ClumpError(RuntimeError):
    """An operation of clump failed. `rank` is the rank that it is about, if there is one."""

    def __init__(self, text="", *, rank=None, op=None):
        super().__init__(text)
        self.rank = rank
        self.op = op

    def __reduce__(self):
        return (_rebuilt, (type(self), self.args, self.__dict__))


def _rebuilt(cls, args, state):
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class StartError(ClumpError):
    """This process could not join its job, or has not joined yet."""


class ThreadError(ClumpError):
    """An object was used by a thread that it does not belong to."""


class ClumpTimeout(ClumpError, TimeoutError):
    """The time limit of a call has passed. After a collective, its team cannot be used further."""


class RankDied(ClumpError):
    """A rank died, so that what this call waits for may never come."""


class RankLeft(ClumpError):
    """A rank has ended its part in the job."""


class NodeLost(ClumpError):
    """A node cannot be reached any more."""


class Refused(ClumpError):
    """Memory of another rank refused an operation."""


class OutOfMemory(ClumpError, MemoryError):
    """Memory has run out, at this rank or another."""


class HandlerError(ClumpError):
    """Something was called inside a remote call that may not be called there."""


class ForkedError(ClumpError):
    """This process is a child by `fork` of a rank, and no rank itself."""


class DisagreementError(ClumpError):
    """Ranks do not execute the same collective, or give it different arguments."""


class RemoteError(ClumpError):
    """A remote call failed; `remote_traceback` is the traceback at the rank that it ran on.

    The exception of the remote rank is `__cause__`, where it can be pickled.
    """

    def __init__(self, text="", *, rank=None, op=None, remote_traceback=""):
        super().__init__(text, rank=rank, op=op)
        self.remote_traceback = remote_traceback
