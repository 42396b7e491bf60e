"""Closing a connection: what was written is read by the broker, though it speaks meanwhile and nobody reads that."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from mantamq.client.aio.driver import _Protocol
from mantamq.client.sync import socket_thread as wire_module
from mantamq.client.sync.socket_thread import Wire

pytestmark = pytest.mark.timeout(20)
WRITTEN = b"w" * 100_000
A_MOMENT_S = 0.1


class Heard:
    """The owner of a line that has no conversation."""

    def __init__(self) -> None:
        self.gone: list[str] = []

    def _received(self, line: Any, data: bytes) -> None:
        pass

    def _gone(self, line: Any, reason: str) -> None:
        self.gone.append(reason)

    def _choke(self, line: Any, choked: bool) -> None:
        pass


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's end and the broker's end of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        broker, _ = server.accept()
    broker.settimeout(10)
    with client, broker:
        yield client, broker


def read_to_the_end(broker: socket.socket) -> bytes:
    """As a broker does that was busy: it says something first, twice, since the first may only find out that nobody is
    there."""
    for _ in range(2):
        broker.sendall(b"completed")
        time.sleep(A_MOMENT_S)
    got = bytearray()
    while data := broker.recv(4096):
        got += data
    return bytes(got)


def test_a_blocking_client_leaves_when_all_was_read(line: tuple[socket.socket, socket.socket]) -> None:
    client, broker = line
    heard = Heard()
    wire = Wire(client, heard._received, heard._gone, lambda: None)
    wire.start()
    wire.write(WRITTEN)
    closing = threading.Thread(target=wire.close)
    closing.start()
    closing.join(A_MOMENT_S)
    assert read_to_the_end(broker) == WRITTEN
    broker.close()
    closing.join(10)
    assert not closing.is_alive() and heard.gone


async def test_an_asyncio_client_leaves_when_all_was_read(line: tuple[socket.socket, socket.socket]) -> None:
    client, broker = line
    heard: Any = Heard()
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: _Protocol(heard), sock=client)
    protocol.transport.write(WRITTEN)
    closing = asyncio.create_task(protocol.end())
    await asyncio.wait([closing], timeout=A_MOMENT_S)
    assert await asyncio.to_thread(read_to_the_end, broker) == WRITTEN
    broker.close()
    await asyncio.wait_for(closing, 10)
    assert heard.gone


@pytest.mark.parametrize("how", ["close", "abort"])
def test_a_broker_that_stands_still_is_not_waited_for_long(
    line: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(wire_module, "CLOSE_S", 0.2 if how == "close" else 1000)
    client, _ = line
    heard = Heard()
    wire = Wire(client, heard._received, heard._gone, lambda: None)
    wire.start()
    wire.write(WRITTEN)
    getattr(wire, how)()
    wire._thread.join(10)
    assert not wire._thread.is_alive() and heard.gone
