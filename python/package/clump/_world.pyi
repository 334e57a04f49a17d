"""Types of the job, teams and collectives."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

from numpy.typing import NDArray
from typing_extensions import Self

from ._native import NativeTeam

_T = TypeVar("_T")
_A = TypeVar("_A", bound=NDArray[Any])
_Rows: TypeAlias = Sequence[Any] | NDArray[Any]
_Op: TypeAlias = (
    Literal["sum", "prod", "min", "max", "and", "or", "xor"] | Callable[[Any, Any], Any]
)

OPS: tuple[str, ...]

class Team:
    rank: int
    size: int
    def __init__(self, native: NativeTeam) -> None: ...
    @property
    def nranks(self) -> int: ...
    @property
    def members(self) -> list[int]: ...
    def barrier(self, timeout: float | None = None) -> None: ...
    # What others than the root give is not used: `w.bcast(x if w.rank == 0 else None)`.
    @overload
    def bcast(
        self, obj: object, root: int = 0, *, out: _A, timeout: float | None = None
    ) -> _A: ...
    @overload
    def bcast(
        self, obj: None, root: int = 0, *, out: None = None, timeout: float | None = None
    ) -> Any: ...
    @overload
    def bcast(
        self, obj: _T | None, root: int = 0, *, out: None = None, timeout: float | None = None
    ) -> _T: ...
    @overload
    def gather(
        self, obj: object, root: int = 0, *, out: _A, timeout: float | None = None
    ) -> _A | None: ...
    @overload
    def gather(
        self, obj: _T, root: int = 0, *, out: None = None, timeout: float | None = None
    ) -> list[_T] | None: ...
    @overload
    def allgather(self, obj: object, *, out: _A, timeout: float | None = None) -> _A: ...
    @overload
    def allgather(
        self, obj: _T, *, out: None = None, timeout: float | None = None
    ) -> list[_T]: ...
    @overload
    def scatter(
        self, objs: _Rows | None, root: int = 0, *, out: _A, timeout: float | None = None
    ) -> _A: ...
    @overload
    def scatter(
        self,
        objs: NDArray[Any] | None,
        root: int = 0,
        *,
        out: None = None,
        timeout: float | None = None,
    ) -> Any: ...
    @overload
    def scatter(
        self,
        objs: Sequence[_T] | None,
        root: int = 0,
        *,
        out: None = None,
        timeout: float | None = None,
    ) -> _T: ...
    @overload
    def alltoall(self, objs: _Rows, *, out: _A, timeout: float | None = None) -> _A: ...
    @overload
    def alltoall(
        self, objs: NDArray[Any], *, out: None = None, timeout: float | None = None
    ) -> list[Any]: ...
    @overload
    def alltoall(
        self, objs: Sequence[_T], *, out: None = None, timeout: float | None = None
    ) -> list[_T]: ...
    def allreduce(
        self,
        obj: _T,
        op: _Op = "sum",
        *,
        out: NDArray[Any] | None = None,
        timeout: float | None = None,
    ) -> _T: ...
    def reduce(
        self,
        obj: _T,
        op: _Op = "sum",
        root: int = 0,
        *,
        out: NDArray[Any] | None = None,
        timeout: float | None = None,
    ) -> _T | None: ...
    def scan(
        self,
        obj: _T,
        op: _Op = "sum",
        *,
        out: NDArray[Any] | None = None,
        timeout: float | None = None,
    ) -> _T: ...
    def exscan(
        self,
        obj: _T,
        op: _Op = "sum",
        *,
        out: NDArray[Any] | None = None,
        timeout: float | None = None,
    ) -> _T | None: ...
    @overload
    def split(self, color: int, key: int = 0, *, timeout: float | None = None) -> Team: ...
    @overload
    def split(
        self, color: int | None, key: int = 0, *, timeout: float | None = None
    ) -> Team | None: ...

class Phase:
    seconds: float | None
    def __init__(self, world: World, name: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

class World(Team):
    node: int
    nnodes: int
    def __init__(self, place: tuple[int, int, int, int]) -> None: ...
    def node_of(self, rank: int) -> int: ...
    def sync(self, timeout: float | None = None) -> None: ...
    def phase(self, name: str = "") -> Phase: ...
    def poll(self) -> int: ...
    def serve(self, seconds: float) -> None: ...
    def send(
        self, obj: object, dest: int, tag: int = 0, *, timeout: float | None = None
    ) -> None: ...
    def recv(
        self, source: int | None = None, tag: int | None = None, *, timeout: float | None = None
    ) -> Any: ...
    def recv_from(
        self, source: int | None = None, tag: int | None = None, *, timeout: float | None = None
    ) -> tuple[Any, int, int]: ...
    async def arrival(self, source: int | None = None, tag: int | None = None) -> Any: ...
    def probe(
        self, source: int | None = None, tag: int | None = None
    ) -> tuple[int, int, int] | None: ...

def world() -> World: ...
