"""Types of the package's public names."""

from types import ModuleType
from typing import Any

from . import svm as svm
from ._array import GlobalArray as GlobalArray, empty as empty, zeros as zeros
from ._cluster import CellError as CellError, Cluster as Cluster
from ._dict import Dict as Dict
from ._endpoint import Endpoint as Endpoint, Token as Token
from ._errors import (
    ClumpError as ClumpError,
    ClumpTimeout as ClumpTimeout,
    DisagreementError as DisagreementError,
    ForkedError as ForkedError,
    HandlerError as HandlerError,
    NodeLost as NodeLost,
    OutOfMemory as OutOfMemory,
    RankDied as RankDied,
    RankLeft as RankLeft,
    Refused as Refused,
    RemoteError as RemoteError,
    StartError as StartError,
    ThreadError as ThreadError,
)
from ._lock import Lock as Lock
from ._remote import (
    call as call,
    handler as handler,
    notify as notify,
    start as start,
)
from ._tasks import Executor as Executor
from ._world import Phase as Phase, Team as Team, World as World, world as world

__version__: str
init = world
#: The module whose `dumps` encodes objects, if the program sets one.
pickle: ModuleType | Any

def launcher() -> str: ...
def prefix() -> str: ...

__all__ = [
    "CellError",
    "ClumpError",
    "ClumpTimeout",
    "Cluster",
    "Dict",
    "DisagreementError",
    "Endpoint",
    "Executor",
    "ForkedError",
    "GlobalArray",
    "HandlerError",
    "Lock",
    "NodeLost",
    "OutOfMemory",
    "Phase",
    "RankDied",
    "RankLeft",
    "Refused",
    "RemoteError",
    "StartError",
    "Team",
    "ThreadError",
    "Token",
    "World",
    "call",
    "empty",
    "handler",
    "init",
    "launcher",
    "prefix",
    "notify",
    "start",
    "svm",
    "world",
    "zeros",
]
