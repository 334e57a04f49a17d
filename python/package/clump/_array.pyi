"""Types of global arrays."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal, SupportsIndex, TypeAlias

from numpy import bool_, dtype, int64, integer
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import Self

_Shape: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | list[int]
_Spread: TypeAlias = Literal["block", "cyclic"] | int
_Update: TypeAlias = Literal["add", "min", "max", "and", "or", "xor"]
_Indexes: TypeAlias = (
    int
    | slice
    | range
    | list[int]
    | list[bool]
    | tuple[int, ...]
    | integer[Any]
    | NDArray[integer[Any]]
    | NDArray[bool_]
)

def zeros(
    shape: _Shape,
    dtype: DTypeLike = "f8",
    spread: _Spread = "block",
    *,
    timeout: float | None = None,
) -> GlobalArray: ...
def empty(
    shape: _Shape,
    dtype: DTypeLike = "f8",
    spread: _Spread = "block",
    *,
    timeout: float | None = None,
) -> GlobalArray: ...

class GlobalArray:
    shape: tuple[int, ...]
    size: int
    dtype: dtype[Any]
    spread: _Spread
    def __init__(
        self, shape: _Shape, dtype: DTypeLike, spread: _Spread, *, timeout: float | None = None
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def local(self) -> NDArray[Any]: ...
    def near(self, rank: int) -> NDArray[Any]: ...
    def local_indexes(self) -> NDArray[int64]: ...
    def indexes_of(self, rank: int) -> NDArray[int64]: ...
    def owner(self, index: int) -> int: ...
    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, key: _Indexes) -> Any: ...
    def __setitem__(self, key: _Indexes, value: ArrayLike) -> None: ...
    def gather(
        self, indexes: _Indexes, *, out: NDArray[Any] | None = None, timeout: float | None = None
    ) -> Any: ...
    def get(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        out: NDArray[Any] | None = None,
        timeout: float | None = None,
    ) -> NDArray[Any]: ...
    def put(self, start: int, values: ArrayLike, *, timeout: float | None = None) -> None: ...
    def update(
        self,
        indexes: _Indexes,
        values: ArrayLike,
        op: _Update = "add",
        *,
        timeout: float | None = None,
    ) -> None: ...
    def add(
        self, indexes: _Indexes, values: ArrayLike, *, timeout: float | None = None
    ) -> None: ...
    def fetch_add(self, index: int, value: Any = 1, *, timeout: float | None = None) -> Any: ...
    def swap(self, index: int, value: Any, *, timeout: float | None = None) -> Any: ...
    def compare_swap(
        self, index: int, old: Any, new: Any, *, timeout: float | None = None
    ) -> Any: ...
    def free(self, *, timeout: float | None = None) -> None: ...
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def __del__(self) -> None: ...
