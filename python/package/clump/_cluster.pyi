"""Types of ranks that persist between cells."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from typing_extensions import Self

from ._errors import ClumpError

class CellError(ClumpError):
    outputs: list[str]
    remote_traceback: str
    def __init__(
        self,
        text: str = "",
        *,
        rank: int | None = None,
        op: str | None = None,
        outputs: Iterable[str] = (),
        remote_traceback: str = "",
    ) -> None: ...

class Cluster:
    def __init__(self, n: int, *, nodes: int = 1, options: Sequence[str] = ()) -> None: ...
    @property
    def size(self) -> int: ...
    def restart(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def run(
        self, code: str, *, ranks: Iterable[int] | None = None, show: bool = True
    ) -> dict[int, str]: ...
    def values(self, expression: str, *, ranks: Iterable[int] | None = None) -> list[Any]: ...
    def magic(self) -> None: ...
