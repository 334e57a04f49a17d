"""Types of awaitables."""

from collections.abc import Callable

async def until(is_done: Callable[[], object]) -> None: ...
