"""A link of deeds over a connection that a test keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


class KeptLink:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def ask(self, what: Callable[[Any], Awaitable[Any]]) -> Any:
        return await what(self._connection)
