"""Types of tasks."""

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

class Executor(concurrent.futures.Executor):
    def __init__(
        self,
        workers: int | None = None,
        *,
        nodes: int = 1,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        options: Sequence[str] = (),
    ) -> None: ...
    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> concurrent.futures.Future[_T]: ...
    # Without the parameters that later versions of Python add to the base's.
    def map(  # type: ignore[override, unused-ignore]
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int | None = None,
    ) -> Iterator[_T]: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
