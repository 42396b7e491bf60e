"""The HTTP server, over real sockets of this machine: what callers may hold on to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mantamq.management.server import PageServer, Patience
from mantamq.protocol.errors import LocalError

SHORT = Patience(head_s=0.2, body_s=0.2, connections=3)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body, when all of it is there."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(patience: Patience | None = None, port: int = 0) -> AsyncIterator[PageServer]:
    server = PageServer(echo, "127.0.0.1", port, patience)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def calling(server: PageServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = server.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server closes, within a limit."""
    async with asyncio.timeout(10):
        found = b""
        try:
            while more := await reader.read(65536):
                found += more
        except ConnectionResetError:
            pass
        return found


POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"


async def test_a_request_is_answered_and_the_connection_is_closed_when_it_asks_so():
    async with served() as server, calling(server) as (reader, writer):
        writer.write(POST + b"Connection: close\r\n\r\nhello")
        said = await answer(reader)
        assert said.startswith(b"HTTP/1.1 200") and said.endswith(b"hello")
        assert b"uvicorn" not in said


async def test_who_says_nothing_is_left():
    async with served(SHORT) as server, calling(server) as (reader, _):
        assert await answer(reader) == b""


async def test_a_head_that_comes_byte_by_byte_is_not_waited_for():
    async with served(SHORT) as server, calling(server) as (reader, writer):

        async def trickle() -> None:
            for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 10_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)

        task = asyncio.create_task(trickle())
        assert await answer(reader) == b""
        task.cancel()


async def test_a_body_that_does_not_come_is_told_so():
    async with served(SHORT) as server, calling(server) as (reader, writer):
        writer.write(POST + b"\r\nhel")
        said = await answer(reader)
        assert said.startswith(b"HTTP/1.1 408") and b"within 0.2 s" in said


async def test_a_second_request_has_its_own_time():
    async with served(Patience(head_s=1.0)) as server, calling(server) as (reader, writer):
        for _ in range(3):
            await asyncio.sleep(0.4)
            writer.write(POST + b"\r\nhello")
            async with asyncio.timeout(10):
                assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")


async def test_there_are_no_more_callers_than_there_may_be():
    async with served(Patience(connections=2)) as server, calling(server), calling(server), calling(server) as third:
        assert await answer(third[0]) == b""


async def test_nonsense_harms_only_who_sends_it():
    async with served() as server:
        async with calling(server) as (reader, writer):
            writer.write(b"\x00\xff nonsense\r\n\r\n")
            assert (await answer(reader)).startswith(b"HTTP/1.1 400")
        async with calling(server) as (reader, writer):
            writer.write(POST + b"Connection: close\r\n\r\nhello")
            assert (await answer(reader)).endswith(b"hello")


async def test_a_port_that_is_taken_is_replaced_and_said_so():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with served(port=port) as server:
            assert server.address != f"127.0.0.1:{port}"
            assert f"127.0.0.1:{port}" in server.trouble and "name another port" in server.trouble
        anywhere = PageServer(echo, "127.0.0.1", port, elsewhere=True)
        assert await anywhere.start() != f"127.0.0.1:{port}" and not anywhere.trouble
        await anywhere.stop()


async def test_a_host_that_is_not_ours_is_refused():
    with pytest.raises(LocalError, match="name another host"):
        await PageServer(echo, "203.0.113.1", 0).start()
    with pytest.raises(LocalError, match="name another host"):
        await PageServer(echo, "203.0.113.1", 15672).start()


async def test_nobody_is_served_after_the_end():
    async with served() as server:
        host, _, port = server.address.rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))
