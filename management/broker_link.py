"""A connection to the cluster that is made when it is needed, and made again when it is lost for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ..client import connect_async
from ..client.aio.aio import AsyncConnection
from ..client.errors import ConnectionLost, NoCluster

T = TypeVar("T")
CONNECT_S = 5.0

Connect = Callable[[Sequence[str], str], Awaitable[AsyncConnection]]


async def _connect(addresses: Sequence[str], token: str) -> AsyncConnection:
    return await connect_async(list(addresses), token=token, timeout=CONNECT_S, reconnect_s=CONNECT_S)


class BrokerLink:
    """
    Args:
        addresses: tells where brokers take clients now; asked whenever one is to be found.
        token: what clients must present.
        connect: makes a connection.
    """

    def __init__(self, addresses: Callable[[], Sequence[str]], token: str, connect: Connect = _connect) -> None:
        self._addresses = addresses
        self._token = token
        self._connect = connect
        self._making = asyncio.Lock()
        self._connection: AsyncConnection | None = None

    async def connection(self) -> AsyncConnection:
        """The connection, which looks for another broker by itself when its own is lost.

        Raises:
            NoCluster: no broker is known to take clients.
            MantaError: none takes this one.
        """
        async with self._making:
            if self._connection is None:
                addresses = self._addresses()
                if not addresses:
                    raise NoCluster("no broker takes clients now: `mantamq status` says why")
                self._connection = await self._connect(addresses, self._token)
            return self._connection

    async def ask(self, what: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Have it answer something; whatever becomes of that, the next to ask finds a connection that can be used.

        Raises:
            MantaError: what the broker or the connection says.
        """
        connection = await self.connection()
        try:
            return await what(connection)
        except ConnectionLost:
            if self._connection is connection:
                self._connection = None
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
