"""Types of shared virtual memory."""

from types import TracebackType
from typing import Any, Literal, SupportsIndex, TypeAlias, TypeVar

from numpy.typing import DTypeLike, NDArray
from typing_extensions import Self

from ._native import NativeHeapLocks

_A = TypeVar("_A", bound=NDArray[Any])
_Home: TypeAlias = Literal["block", "cyclic", "first-write"] | int

def empty(
    shape: SupportsIndex | tuple[SupportsIndex, ...] | list[int],
    dtype: DTypeLike = "f8",
    home: _Home = "block",
    *,
    timeout: float | None = None,
) -> NDArray[Any]: ...

zeros = empty

def barrier(timeout: float | None = None) -> None: ...
def prefetch(array: _A, *, write: bool = False) -> _A: ...

class Locks:
    def __init__(self, count: int = 1, *, timeout: float | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, number: int) -> _Held: ...

class Lock:
    def __init__(self, *, timeout: float | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

class _Held:
    def __init__(self, native: NativeHeapLocks, number: int) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
