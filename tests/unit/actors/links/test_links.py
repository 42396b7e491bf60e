"""Links and shells on a real loop and loopback sockets, around a toy machine. No Ray, no broker rules."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from mantamq.actors.links.handshake import Credentials, DialOpening, ListenOpening
from mantamq.actors.links.links import Link
from mantamq.actors.links.near import dial_near
from mantamq.actors.members.shell import Retired, Shell
from mantamq.protocol.errors import UNAUTHORIZED, LocalError, PeerError
from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import (
    Again,
    Close,
    Effect,
    Flush,
    Input,
    KeepAlive,
    Members,
    Multicast,
    PauseClient,
    PeerDown,
    PeerGone,
    PeerUp,
    Received,
    Retire,
    Send,
    SetTimer,
    Tick,
)
from mantamq.protocol.timing import Timing
from mantamq.protocol.wire.client_frames import Attached, Command, Detach, Open, Opened
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import HEADER, FrameBuffer, encode_frame, encode_onto
from mantamq.protocol.wire.kinds import CLIENT_KINDS, KIND_OF, KINDS
from mantamq.protocol.wire.link_frames import Challenge, Hello, Ping, Pong, Proof, Refused, Welcome
from mantamq.protocol.wire.log_frames import Results
from mantamq.protocol.wire.queue_frames import Forget, Settled
from mantamq.protocol.wire.store_frames import Write

SECRET = b"s" * 32
LIMIT_S = 5.0


def own(name: str, secret: bytes = SECRET, cluster: str = "toy") -> Credentials:
    return Credentials(cluster, secret, name)


class Toy:
    """A machine that notes every input and does what its `rules` say: frame type -> effects."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.rules: dict[type, Callable[[Any], list[Effect]]] = {}
        self.changed = asyncio.Event()

    def step(self, input: Input) -> list[Effect]:
        self.inputs.append(input)
        self.changed.set()
        kind = type(input.frame) if isinstance(input, Received) else type(input)
        rule = self.rules.get(kind)
        return rule(input) if rule is not None else []

    def frames(self, peer: str | None = None) -> list[Frame]:
        return [i.frame for i in self.inputs if isinstance(i, Received) and peer in (None, i.peer)]

    def of(self, kind: type) -> list[Any]:
        return [i for i in self.inputs if type(i) is kind]

    async def until(self, true: Callable[[], Any]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not true():
                self.changed.clear()
                await self.changed.wait()


class Client:
    """The far end of a client link, made of plain streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._buffer = FrameBuffer()
        self._frames: list[Frame] = []

    def write(self, *frames: Frame | bytes) -> None:
        self.writer.write(b"".join(f if isinstance(f, bytes) else encode_frame(f) for f in frames))

    async def read(self) -> Frame | None:
        """The next frame; None at the end of the stream."""
        async with asyncio.timeout(LIMIT_S):
            while not self._frames:
                data = await self.reader.read(1 << 18)
                if not data:
                    return None
                self._frames += self._buffer.feed(data)
        return self._frames.pop(0)


@asynccontextmanager
async def toy(name: str = "b1", **options: Any) -> AsyncIterator[tuple[Toy, Shell]]:
    machine = Toy()
    shell = Shell(machine, own(name), **options)
    try:
        yield machine, shell
    finally:
        await shell.stop()


@asynccontextmanager
async def client_of(shell: Shell) -> AsyncIterator[Client]:
    host, port = (await shell.listen_clients("127.0.0.1")).split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def test_a_broker_on_a_nodes_address_is_found_on_loopback_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with toy() as (_, shell):
        listened: list[tuple[str, int]] = []
        taken: set[tuple[str, int]] = set()

        async def listen(factory: object, host: str, port: int) -> str:
            if (host, port) in taken:
                raise LocalError(f"cannot listen on {host}:{port}")
            listened.append((host, port))
            return f"{host}:{port or 7000}"

        monkeypatch.setattr(shell, "_listen", listen)
        assert await shell.listen_clients("192.0.2.7") == "192.0.2.7:7000"
        assert listened == [("192.0.2.7", 0), ("127.0.0.1", 7000)]
        taken.add(("127.0.0.1", 7001))  # somebody else's: clients use the node's address
        assert await shell.listen_clients("192.0.2.7", 7001) == "192.0.2.7:7001"
        for host in ("127.0.0.1", "::1", "0.0.0.0", "localhost"):
            listened.clear()
            await shell.listen_clients(host, 7002)
            assert listened == [(host, 7002)]


Story = Callable[[], Coroutine[Any, Any, None]]
Run = Callable[[Story], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Runs a story on either kind of loop: they differ in what they do to a transport that is just lost."""

    def run(story: Story) -> None:
        errors: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
            await story()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(watched())
        assert errors == []

    return run


# ---- opening


def test_two_shells_find_each_other_and_frames_arrive_in_order(run: Run) -> None:
    async def story() -> None:
        async with toy("b1") as (broker, broker_shell), toy("b1.r0") as (replica, replica_shell):
            replica_shell.dial("b1", await broker_shell.listen_peers("127.0.0.1"))
            assert await replica_shell.until_up(["b1"], LIMIT_S) == []
            await broker.until(lambda: PeerUp("b1.r0") in broker.inputs)
            for number in range(100):
                replica_shell.links["b1"].send(encode_frame(Settled("q", 1, number, [])))
            await broker.until(lambda: len(broker.frames()) == 100)
            assert [frame.number for frame in broker.frames("b1.r0")] == list(range(100))  # type: ignore[attr-defined]
            assert PeerUp("b1") in replica.inputs
            await replica_shell.stop()
            await broker.until(lambda: PeerDown("b1.r0") in broker.inputs)

    run(story)


@pytest.mark.parametrize(
    ("caller", "callee"),
    [
        (own("b1.r0", b"x" * 32), "b1"),
        (own("b1.r0", cluster="another"), "b1"),
        (own("b1.r0"), "b2"),
        (own("stranger"), "b1"),
    ],
    ids=["wrong secret", "wrong cluster", "wrong callee", "not admitted"],
)
def test_a_peer_that_does_not_belong_here_never_comes_up(run: Run, caller: Credentials, callee: str) -> None:
    async def story() -> None:
        lost = asyncio.get_running_loop().create_future()
        async with toy("b1", admits=lambda name: name.startswith("b1.")) as (broker, shell):
            host, port = (await shell.listen_peers("127.0.0.1")).split(":")
            machine = Toy()
            dialling = Shell(machine, caller)
            link = Link(dialling, DialOpening(caller, callee))
            link.on_lost = lambda: lost.set_result(None)
            await asyncio.get_running_loop().create_connection(lambda: link, host, int(port))
            await asyncio.wait_for(lost, LIMIT_S)
            assert link.reason is not None and link.reason.code in (UNAUTHORIZED, "not-allowed")
            assert not broker.of(PeerUp) and not machine.of(PeerUp)

    run(story)


def test_whatever_members_say_to_each_other_is_taken_from_an_open_link() -> None:
    """What is not would break the link that carries it."""
    opening = {KIND_OF[frame] for frame in (Hello, Challenge, Proof, Welcome)}
    members = set(KINDS) - opening - CLIENT_KINDS | {KIND_OF[Ping], KIND_OF[Pong]}
    assert DialOpening.open_kinds == ListenOpening.open_kinds == members


def test_a_proof_cannot_be_reflected() -> None:
    """A dialler without the secret lets the listener answer its own challenge on a second connection."""
    victim = ListenOpening(own("b1"), lambda name: True)
    oracle = ListenOpening(own("b1"), lambda name: True)
    [challenge] = victim.receive(Hello("toy", "b1.r0", b"n" * 32))
    [answer] = oracle.receive(Hello("toy", "b1.r0", challenge.nonce))  # type: ignore[attr-defined]
    with pytest.raises(PeerError, match="proof is wrong"):
        victim.receive(Proof(answer.proof))  # type: ignore[attr-defined]


def test_the_secret_is_not_in_the_repr() -> None:
    assert "sss" not in repr(own("b1"))


def test_who_says_nothing_is_dropped(run: Run) -> None:
    async def story() -> None:
        async with toy(timing=Timing(opening_ms=50)) as (machine, shell), client_of(shell) as client:
            answer = await client.read()
            assert isinstance(answer, Refused) and "within 0.05 s" in answer.text
            assert await client.read() is None
            assert not machine.of(PeerUp)

    run(story)


def test_a_dialler_waits_for_its_peer_and_comes_back_after_a_loss(run: Run) -> None:
    async def story() -> None:
        async with toy("b1.r0") as (replica, dialling):
            async with toy("b1") as (_, first):
                address = await first.listen_peers("127.0.0.1")
                dialling.dial("b1", address)
                await replica.until(lambda: len(replica.of(PeerUp)) == 1)
            await replica.until(lambda: len(replica.of(PeerDown)) == 1)
            async with toy("b1") as (_, second):
                await second.listen_peers("127.0.0.1", int(address.split(":")[1]))
                await replica.until(lambda: len(replica.of(PeerUp)) == 2)

    run(story)


def test_a_shell_that_has_stopped_begins_nothing_more(run: Run) -> None:
    """A start may be under way then, and go on with it: nobody would ever close what it opens."""

    async def story() -> None:
        async with toy("b1") as (hub, listening), toy("b1.r0") as (_, stopped):
            address = await listening.listen_peers("127.0.0.1")
            late = asyncio.ensure_future(stopped.listen_peers("127.0.0.1"))
            await stopped.stop()
            host, port = (own_address := await late).split(":")
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(host, int(port))
            assert dial_near(own_address) is None
            stopped.dial("b1", address)
            async with toy("b1.r1") as (_, other):
                other.dial("b1", address)
                await hub.until(lambda: hub.of(PeerUp))
            assert hub.of(PeerUp) == [PeerUp("b1.r1")] and not stopped._diallers

    run(story)


def test_a_dialler_is_refused_where_a_process_was_and_says_so_once(run: Run) -> None:
    async def story() -> None:
        async with toy("b1.r0", timing=Timing(link_lived_ms=-1)) as (replica, dialling):
            async with toy("b1") as (_, first):
                address = await first.listen_peers("127.0.0.1")
                dialling.dial("b1", address)
                await replica.until(lambda: replica.of(PeerUp))
            await replica.until(lambda: replica.of(PeerGone))
            assert [type(i) for i in replica.inputs if type(i) in (PeerDown, PeerGone)] == [PeerDown, PeerGone]
            async with toy("b1") as (_, second):
                await second.listen_peers("127.0.0.1", int(address.split(":")[1]))
                await replica.until(lambda: len(replica.of(PeerUp)) == 2)
            assert len(replica.of(PeerGone)) == 1

    run(story)


def test_what_a_machine_says_before_it_retires_arrives(run: Run) -> None:
    async def story() -> None:
        ended = asyncio.get_running_loop().create_future()
        async with toy("b1") as (hub, listening), toy("b1.r0", on_failure=ended.set_result) as (replica, dialling):
            replica.rules[Members] = lambda _: [Send("b1", Results(1, [7])), Retire("its part is over")]
            dialling.dial("b1", await listening.listen_peers("127.0.0.1"))
            await replica.until(lambda: replica.of(PeerUp))
            dialling.give(Members({}))
            assert dialling.retired and not ended.done()
            dialling.give(Members({}))  # nothing is stepped any more
            await hub.until(lambda: hub.frames() == [Results(1, [7])])
            assert isinstance(await ended, Retired)
            assert len(replica.of(Members)) == 1

    run(story)


# ---- bad bytes


BAD = {
    "garbage": (b"GET / HTTP/1.1\r\n\r\n", "wrong-version"),
    "wrong version": (HEADER.pack(9, 1, 96) + b"\x90", "wrong-version"),
    "oversized": (HEADER.pack(1, 1 << 31, 111), "too-large"),
    "not msgpack": (HEADER.pack(1, 3, 111) + b"\xc1\xc1\xc1", "bad-frame"),
    "a cluster frame": (encode_frame(Results(1, [1])), "bad-frame"),
    "a handshake frame": (encode_frame(Hello("toy", "b1.r0", b"n" * 32)), "bad-frame"),
    "deep nesting": (HEADER.pack(1, 3 + 200, 111) + b"\x93\x01\xa0" + b"\x91" * 200, "bad-frame"),
}


@pytest.mark.parametrize("data,code", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("opened", [False, True])
def test_bad_bytes_end_that_client_with_a_reason(run: Run, data: bytes, code: str, opened: bool) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as bad:
            if opened:
                bad.write(Open("bad"), Detach(7))
            bad.write(data)
            answer = await bad.read()
            assert isinstance(answer, Refused)
            assert answer.code == code
            assert await bad.read() is None
            if opened:  # what came before the breach was delivered
                await machine.until(lambda: PeerDown("c1") in machine.inputs)
                assert machine.frames("c1") == [Open("bad"), Detach(7)]
            else:
                assert not machine.of(PeerUp)

    run(story)


def test_an_opening_is_small(run: Run) -> None:
    async def story() -> None:
        async with toy() as (_, shell), client_of(shell) as client:
            client.write(encode_frame(Open("x" * 5000)))
            answer = await client.read()
            assert isinstance(answer, Refused) and "4096" in answer.text

    run(story)


def test_a_frame_in_single_bytes_arrives_whole(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            for byte in encode_frame(Open("me")) + encode_frame(Detach(1)):
                client.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            await machine.until(lambda: machine.frames("c1") == [Open("me"), Detach(1)])

    run(story)


# ---- batches


def test_many_sends_of_one_iteration_are_one_write(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            machine.rules[Detach] = lambda received: [Send(received.peer, Attached(received.frame.handle))]
            machine.rules[Flush] = lambda _: [Send("c1", Attached(0))] if machine.of(Received) else []
            client.write(Open("me"))
            await machine.until(lambda: machine.frames())
            assert await client.read() == Attached(0)
            writes: list[bytes] = []
            link = shell.links["c1"]
            transport = link._transport
            monkeypatch.setattr(link, "_transport", Recorder(transport, writes))
            before = len(machine.of(Flush))
            client.write(*(Detach(handle) for handle in range(1, 501)))
            for handle in [*range(1, 501), 0]:
                assert await client.read() == Attached(handle)
            assert len(writes) == 1
            assert len(machine.of(Flush)) == before + 1

    run(story)


class Recorder:
    def __init__(self, transport: Any, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        self._writes.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def test_a_multicast_is_encoded_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Frame] = []

    def counting(frame: Frame, out: list[bytes]) -> None:
        encoded.append(frame)
        encode_onto(frame, out)

    async def story() -> None:
        async with toy("sequencer") as (machine, shell), toy("b1") as (one, a), toy("b2") as (two, b):
            address = await shell.listen_peers("127.0.0.1")
            a.dial("sequencer", address)
            b.dial("sequencer", address)
            assert await shell.until_up(["b1", "b2"], LIMIT_S) == []
            monkeypatch.setattr("mantamq.actors.members.shell.encode_onto", counting)
            machine.rules[Tick] = lambda _: [Multicast(["b1", "b2", "nobody"], Forget("q"))]
            shell.give(Flush())
            await one.until(lambda: Forget("q") in one.frames())
            await two.until(lambda: Forget("q") in two.frames())
            assert encoded.count(Forget("q")) == 1

    run(story)


def test_large_frames_arrive_whole_among_small_ones(run: Run) -> None:
    """They leave in pieces, more than a socket takes at once, and nothing comes between."""
    sent: list[Frame] = [
        one
        for number in range(40)
        for one in (Write(number, [(2, "q", os.urandom(size)) for size in (300_000, 9_000, 10)]), Forget(f"{number}"))
    ]

    async def story() -> None:
        async with toy("b1.store") as (other, store), toy("b1.r0") as (machine, replica):
            replica.dial("b1.store", await store.listen_peers("127.0.0.1"))
            assert await replica.until_up(["b1.store"], LIMIT_S) == []
            machine.rules[Members] = lambda _: [Send("b1.store", frame) for frame in sent]
            replica.give(Members({}))
            await other.until(lambda: len(other.frames("b1.r0")) == len(sent))
            assert other.frames("b1.r0") == sent

    run(story)


def test_again_steps_tick_and_flush_until_it_is_enough(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell):
            machine.rules[Flush] = lambda _: [Again()] if len(machine.of(Flush)) < 5 else []
            shell.give(PeerUp("nobody"))
            await machine.until(lambda: len(machine.of(Flush)) == 5)
            assert [type(i) for i in machine.inputs[2:]] == [Flush, Tick, Flush, Tick, Flush, Tick, Flush, Tick, Flush]

    run(story)


def test_a_timer_is_never_early_and_a_new_one_replaces_it(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell):
            wanted: list[int] = []

            def first(_: Any) -> list[Effect]:
                now_ms = machine.inputs[-2].now_ms  # type: ignore[union-attr]
                wanted.append(now_ms + 30)
                return [SetTimer(now_ms + 10_000), SetTimer(now_ms + 30)]

            machine.rules[PeerUp] = first
            shell.give(PeerUp("nobody"))
            await machine.until(lambda: len(machine.of(Tick)) == 2)
            assert wanted[0] <= machine.of(Tick)[1].now_ms < wanted[0] + 3000
            await machine.until(lambda: type(machine.inputs[-1]) is Flush)

    run(story)


# ---- closing, pausing, bounds


def test_close_tells_why_after_what_was_sent_before(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            machine.rules[Open] = lambda r: [Send(r.peer, Attached(1)), Close(r.peer, "unauthorized", "wrong token")]
            client.write(Open("me"))
            assert await client.read() == Attached(1)
            assert await client.read() == Refused("unauthorized", "wrong token")
            assert await client.read() is None
            await machine.until(lambda: PeerDown("c1") in machine.inputs)

    run(story)


def test_pings_are_answered_by_the_link(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            client.write(Open("me"), Ping(), Detach(1), Pong())
            assert await client.read() == Pong()
            await machine.until(lambda: machine.frames() == [Open("me"), Detach(1)])

    run(story)


def test_a_silent_peer_is_closed_with_a_reason_and_one_that_speaks_is_not(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client, client_of(shell) as chatty:
            machine.rules[Open] = lambda r: [KeepAlive(r.peer, 100, 300)]
            client.write(Open("silent"))
            chatty.write(Open("chatty"))
            begun = asyncio.get_running_loop().time()
            for _ in range(8):  # whoever answers what it is asked is heard often enough
                assert await chatty.read() == Ping()
                chatty.write(Pong())
            frames = []
            while (frame := await client.read()) is not None:
                frames.append(frame)
            assert isinstance(frames[-1], Refused) and frames[-1].code == "unavailable"
            assert set(map(type, frames[:-1])) == {Ping}
            assert asyncio.get_running_loop().time() - begun > 0.25
            assert [down.peer for down in machine.of(PeerDown)] == ["c1"]
            assert sum(isinstance(f, Pong) for f in machine.frames()) == 0

    run(story)


def test_a_link_whose_reading_is_held_is_not_taken_for_silent(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            machine.rules[Open] = lambda r: [KeepAlive(r.peer, 10, 0), PauseClient(r.peer, True)]
            client.write(Open("me"))
            for _ in range(10):
                assert await client.read() == Ping()
            assert machine.of(PeerDown) == []
            shell.links["c1"].close()
            assert await client.read() is None

    run(story)


def test_members_keep_each_other_with_heartbeats_and_a_frozen_one_is_lost(run: Run) -> None:
    async def story() -> None:
        async with toy("b1") as (broker, broker_shell), toy("b2") as (other, other_shell):
            other_shell.dial("b1", await broker_shell.listen_peers("127.0.0.1"))
            await broker.until(lambda: broker.of(PeerUp))
            await other.until(lambda: other.of(PeerUp))
            near, far = broker_shell.links["b2"], other_shell.links["b1"]
            near.heartbeat(60)
            far.heartbeat(60)
            await asyncio.sleep(0.4)
            assert broker.of(PeerDown) == [] and other.of(PeerDown) == []
            far._stop_beat()
            far._transport.pause_reading()
            await broker.until(lambda: broker.of(PeerDown))
            assert near.reason is not None and near.reason.code == "unavailable" and "0.12 s" in near.reason.text

    run(story)


def test_paused_clients_are_not_read_until_resumed(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            machine.rules[Detach] = lambda r: [PauseClient(r.peer, r.frame.handle == 1)]
            machine.rules[PeerUp] = lambda i: [PauseClient("c1", False)] if i.peer == "go" else []
            client.write(Open("me"), Detach(1))
            await machine.until(lambda: Detach(1) in machine.frames())
            assert not shell.links["c1"]._transport.is_reading()
            client.write(Detach(2))
            await client.writer.drain()
            shell.give(PeerUp("go"))
            await machine.until(lambda: Detach(2) in machine.frames())

    run(story)


def test_a_client_that_does_not_read_is_slowed_and_then_closed(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as client:
            client.write(Open("me"))
            await machine.until(lambda: machine.frames())
            link = shell.links["c1"]
            link._hard_limit = 16 << 20
            megabyte = encode_frame(Command(1, "x", {"blob": b"." * (1 << 20)}))
            for _ in range(8):
                link.send(megabyte)
            link.flush()
            assert not link._transport.is_reading()  # it must read our answers before it asks for more
            for _ in range(16):
                link.send(megabyte)
            link.flush()
            await machine.until(lambda: PeerDown("c1") in machine.inputs)
            assert link._transport.get_write_buffer_size() < 26 << 20
            while (frame := await client.read()) is not None:
                last = frame
            assert isinstance(last, Refused) and str(16 << 20) in last.text

    caplog.set_level(logging.WARNING)
    run(story)
    assert sum("c1" in record.getMessage() for record in caplog.records) == 1  # one line per refused link


# ---- failure


def test_a_machine_that_breaks_on_a_clients_input_ends_that_client_only(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as bad, client_of(shell) as good:

            def broken(received: Received) -> list[Effect]:
                raise LocalError("my own fault")

            def wrong(received: Received) -> list[Effect]:
                raise PeerError("invalid", "handles start at 1")

            machine.rules[Command] = broken
            machine.rules[Opened] = wrong
            machine.rules[Detach] = lambda r: [Send(r.peer, Attached(r.frame.handle))]
            bad.write(Open("bad"), Command(1, "x", {}))
            refused = await bad.read()
            assert isinstance(refused, Refused) and refused.code == "internal"
            good.write(Open("good"), Detach(5))
            assert await good.read() == Attached(5)
            good.write(Opened("b1", {}, 1, 1, 1))
            assert await good.read() == Refused("invalid", "handles start at 1")
            assert shell.failure is None

    run(story)


def test_a_machine_that_breaks_on_the_clusters_input_stops_for_good(run: Run) -> None:
    async def story() -> None:
        failures: list[BaseException] = []
        async with toy("b1", on_failure=failures.append) as (broker, shell), toy("b1.r0") as (replica, dialling):

            def broken(received: Received) -> list[Effect]:
                raise LocalError("my own fault")

            broker.rules[Settled] = broken
            dialling.dial("b1", await shell.listen_peers("127.0.0.1"))
            await dialling.until_up(["b1"], LIMIT_S)
            dialling.links["b1"].send(encode_frame(Settled("q", 1, 1, [])))
            await replica.until(lambda: PeerDown("b1") in replica.inputs)
            assert [str(error) for error in failures] == ["my own fault"]
            assert shell.failure is failures[0]
            stepped = len(broker.inputs)
            shell.give(Flush())
            assert len(broker.inputs) == stepped

    run(story)


def test_limits_are_the_shells(run: Run) -> None:
    async def story() -> None:
        async with toy(limits=Limits(frame_bytes=100)) as (_, shell), client_of(shell) as client:
            client.write(Open("me"), Command(1, "x" * 200, {}))
            refused = await client.read()
            assert isinstance(refused, Refused) and "100 bytes" in refused.text

    run(story)


def test_a_link_that_is_just_lost_does_not_keep_the_others_from_being_written(run: Run) -> None:
    async def story() -> None:
        async with toy() as (machine, shell), client_of(shell) as lost, client_of(shell) as other:
            lost.write(Open("lost"))
            await machine.until(lambda: "c1" in [up.peer for up in machine.of(PeerUp)])
            other.write(Open("other"))
            await machine.until(lambda: "c2" in [up.peer for up in machine.of(PeerUp)])
            machine.rules[PeerUp] = lambda _: [
                Send("c1", Attached(1)),
                PauseClient("c2", True),
                Send("c2", Attached(2)),
                PauseClient("c2", False),
                Close("c1", "busy", "gone anyway"),
            ]
            shell.links["c1"]._transport.abort()
            shell.give(PeerUp("nobody"))
            assert await other.read() == Attached(2)
            await machine.until(lambda: PeerDown("c1") in machine.inputs)
            assert shell.failure is None

    run(story)


def test_a_fenced_process_leaves_when_its_parent_is_another() -> None:
    code = "import time; from mantamq.actors.members.ending import fence; fence(-1); time.sleep(30)"
    assert subprocess.run([sys.executable, "-c", code], timeout=20, check=False).returncode == 75
