"""The loop's side of one machine: links and timers become inputs, effects become deeds.

All the frames that arrive in one loop iteration, over whatever links, are one batch: each is stepped as it comes, then
one `Flush` is stepped, and then each link with something to say is written once. Nothing here decides anything; whoever
wants to know what a machine can do to the world reads `_carry_out`.

Back-pressure: peers are always read, so that no ring of full buffers can form. A client is not read while the machine
says so (`PauseClient`), while a peer of ours reads too slowly, or while the client itself does.

Failure: what one client sends can end that client only. Anything else that goes wrong inside a machine is a defect with
unknown reach: the shell stops for good (`on_failure`), and the cluster treats that as a crash.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Protocol

from ...protocol.errors import INTERNAL, LocalError, PeerError
from ...protocol.limits import DEFAULT, Limits
from ...protocol.machine import (
    Again,
    Close,
    Effect,
    Flush,
    Input,
    KeepAlive,
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
    WantSpare,
    is_store,
)
from ...protocol.status.members import LinkStatus, ShellStatus
from ...protocol.timing import DEFAULT_TIMING, Timing
from ...protocol.wire.frame import Frame
from ...protocol.wire.framing import encode_onto
from ...protocol.wire.version import spoken
from ..links.dialler import Dialler
from ..links.handshake import ClientOpening, Credentials, ListenOpening
from ..links.links import Link
from ..links.near import near_listener
from ..links.refusals import Refusals

log = logging.getLogger(__name__)

_FLUSH = Flush()
LOOPBACK = "127.0.0.1"
ALONE_FRAMES = 2
LAST_WORD_S = 0.01
"""The last frames of a machine that retires have this long to leave."""


class Machine(Protocol):
    def step(self, input: Input) -> list[Effect]: ...


class Retired(LocalError):
    """A machine's part is over (deposed, evicted, or cut off from what it belongs to); not a defect."""


class DiskFailed(LocalError):
    """A write to the disk, or a flush, has failed. Nothing is tried again: memory may show what the disk does not have
    (`durable.md` 6)."""


class Shell:
    """Runs one machine on the running event loop.

    Args:
        machine: the rules.
        own: this process's credentials; its name is the machine's peer name.
        timing: of its links.
        limits: bounds of frames.
        admits: which peer names may dial in; everybody with the secret by default.
        on_want_spare: called for `WantSpare`.
        on_failure: called once with the exception that stopped the shell; it should end the process.
        deeds: effects that only this kind of process has -> how each is carried out; what that returns is stepped at
            once, and a flush behind it, when others have been read.
        alone_frames: so few frames, with nothing gathering, are flushed at once.

    Attributes:
        links: open links by peer name.
        failure: the exception that stopped this shell, if one has.
        retired: why its part is over, "" while it is not.
    """

    def __init__(
        self,
        machine: Machine,
        own: Credentials,
        *,
        timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT,
        admits: Callable[[str], bool] = lambda name: True,
        on_want_spare: Callable[[], None] = lambda: None,
        on_failure: Callable[[BaseException], None] = lambda error: None,
        deeds: Mapping[type, Callable[[Any], Any]] | None = None,
        alone_frames: int = ALONE_FRAMES,
    ) -> None:
        self.machine = machine
        self.own = own
        self.links: dict[str, Link] = {}
        self.failure: BaseException | None = None
        self.retired = ""
        self._timing = timing
        self._limits = limits
        self._member_limits = limits.between_members()
        self._admits = admits
        self._on_want_spare = on_want_spare
        self._on_failure = on_failure
        self._deeds = deeds or {}
        self._alone_frames = alone_frames
        self._now_ms = 0
        self._loop = asyncio.get_running_loop()
        self._step = machine.step
        self._flush_due = False
        self._again = False
        self._dirty: list[Link] = []
        self._lost: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._clients = 0
        self._holds: set[str] = set()
        self._servers: list[asyncio.Server] = []
        self._diallers: dict[str, Dialler] = {}
        self._waiting: list[tuple[set[str], asyncio.Future[None]]] = []
        self._stopped = False
        self.refusals = Refusals(timing)

    # ---- opening and closing

    async def listen_peers(self, host: str, port: int = 0) -> str:
        """Accept authenticated peers; returns "host:port"."""

        def peer() -> Link:
            return Link(self, ListenOpening(self.own, self._admits), self._member_limits, timing=self._timing)

        address = await self._listen(peer, host, port)
        if (sock := near_listener(address)) is not None:
            self._keep(await self._loop.create_unix_server(peer, sock=sock))
        return address

    async def listen_clients(self, host: str, port: int = 0) -> str:
        """Accept clients; returns "host:port".

        A program on this machine finds the broker on loopback as well, at the same port, unless that is taken there.
        """

        def client() -> Link:
            return Link(self, ClientOpening(), self._limits, timing=self._timing)

        address = await self._listen(client, host, port)
        try:
            if ip_address(host).is_loopback or ip_address(host).is_unspecified:
                return address
            await self._listen(client, LOOPBACK, int(address.rpartition(":")[2]))
        except ValueError:
            pass  # a host's name: what it stands for is not known here
        except LocalError as error:
            log.info("clients on this machine use %(address)s: %(reason)s", {"address": address, "reason": error})
        return address

    async def _listen(self, factory: Callable[[], Link], host: str, port: int) -> str:
        try:
            server = await self._loop.create_server(factory, host, port, backlog=1024)
        except OSError as error:
            foreign = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            todo = "bind an address of this machine (--bind, bind=)" if foreign else "choose another port"
            raise LocalError(f"{self.own.name} cannot listen on {host}:{port}: {error}; {todo}") from None
        address = f"{host}:{server.sockets[0].getsockname()[1]}"
        self._keep(server)
        return address

    def _keep(self, server: asyncio.Server) -> None:
        """Until `stop`, which may have come while this began to listen."""
        if self._stopped:
            server.close()
        self._servers.append(server)

    def part(self, name: str) -> None:
        """Dial `name` no more: it is gone for good."""
        dialler = self._diallers.pop(name, None)
        if dialler is not None:
            dialler.close()

    def dial(self, name: str, address: str) -> None:
        """Keep a link to the peer `name` at `address`; a new address replaces an old one.

        Once this has stopped it dials nobody: a start that was under way would go on with it, and nobody would ever
        close what it dials.
        """
        if self._stopped:
            return
        old = self._diallers.get(name)
        if old is not None:
            if old.address == address:
                return
            old.close()
        self._diallers[name] = Dialler(self, self.own, name, address, self._member_limits, self._timing)

    async def until_up(self, names: Iterable[str], timeout_s: float) -> list[str]:
        """Wait until links to all `names` are open; returns those still missing at the time limit."""
        wanted = set(names)
        if not wanted <= self.links.keys():
            future = self._loop.create_future()
            self._waiting.append((wanted, future))
            try:
                await asyncio.wait_for(future, timeout_s)
            except TimeoutError:
                pass
            finally:
                self._waiting = [waiting for waiting in self._waiting if waiting[1] is not future]
        return sorted(wanted - self.links.keys())

    async def stop(self) -> None:
        """Close every listener, link and timer. The machine is stepped no more."""
        if self._stopped:
            return
        self._stopped = True
        self._step = _nothing
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            server.close()
        for dialler in self._diallers.values():
            dialler.close()
        for link in list(self.links.values()):
            link.flush()
            link.close()
        await asyncio.sleep(0)

    # ---- inputs

    def give(self, input: Input) -> None:
        """Step an input that comes from this process, such as `Members`."""
        try:
            self._tick()
            self._tell_lost()
            self._carry_out(self._step(input))
        except Exception as error:
            self.fail(error)
        self._schedule()

    def link_up(self, link: Link) -> None:
        if link.is_client:
            self._clients += 1
            link.peer = f"c{self._clients}"
            for reason in self._holds:
                link.hold(reason, True)
        else:
            old = self.links.pop(link.peer, None)
            if old is not None:  # the other side came back before we noticed that it had gone
                self._lost.append(link.peer)
                self._hold_clients(link.peer, False)
                old.abort()
        if self._stopped:
            link.abort()
            return
        self._schedule()
        self.refusals.up(link)
        if not link.is_client:
            # A `KeepAlive` may ask for another.
            timing, store = self._timing, is_store(link.peer) or is_store(self.own.name)
            link.heartbeat(timing.keepalive_ms, timing.store_patience_ms if store else timing.keepalive_patience_ms)
        try:
            self._tick()
            self._tell_lost()
            self.links[link.peer] = link
            self._carry_out(self._step(PeerUp(link.peer, link.address if link.is_client else "")))
        except Exception as error:
            self.fail(error)
        for wanted, future in self._waiting:
            if wanted <= self.links.keys() and not future.done():
                future.set_result(None)

    def link_down(self, link: Link) -> None:
        # Told at the next flush: a link may go in the middle of carrying out effects.
        if self.links.get(link.peer) is link:
            del self.links[link.peer]
            self._lost.append(link.peer)
            self._schedule()
            if not link.is_client:
                self._hold_clients(link.peer, False)

    def link_gone(self, peer: str) -> None:
        if peer not in self.links:
            self.give(PeerGone(peer))

    def link_frames(self, link: Link, frames: list[Frame]) -> None:
        # Few frames and nothing gathering: all is said at once. More than that is a batch, and others may join it.
        alone = not self._flush_due and len(frames) <= self._alone_frames
        if alone:
            self._flush_due = True
        elif not self._flush_due:
            self._schedule()
        step = self._step
        peer = link.peer
        try:
            self._tick()
            for frame in frames:
                effects = step(Received(peer, frame))
                if effects:
                    self._carry_out(effects)
        except PeerError as error:
            if not link.is_client:
                self.fail(error)
            link.close(error.code, error.text)
        except Exception as error:
            if not link.is_client:
                self.fail(error)
                return
            log.exception(
                "%(member)s: a frame of client %(client)s at %(address)s broke this broker",
                {"member": self.own.name, "client": peer, "address": link.address},
            )
            link.close(INTERNAL, f"the broker failed on this connection's input ({type(error).__name__}): see its log")
        if alone:
            self._flush()

    def link_dirty(self, link: Link) -> None:
        self._dirty.append(link)
        if not self._flush_due:
            self._schedule()

    def link_pressure(self, link: Link, pressed: bool) -> None:
        if link.is_client:
            link.hold("its own", pressed)
        else:
            self._hold_clients(link.peer, pressed)

    def link_refused(self, link: Link, reason: PeerError) -> None:
        self.refusals.note(link, reason, self._loop.time())

    def _tick(self) -> None:
        now_us = time.time_ns() // 1000
        now_ms = now_us // 1000
        if now_ms < self._now_ms:
            now_ms = self._now_ms  # a clock that is set back does not go back here
        self._now_ms = now_ms
        effects = self._step(Tick(now_ms, now_us))
        if effects:
            self._carry_out(effects)

    def _tell_lost(self) -> None:
        while self._lost:
            self._carry_out(self._step(PeerDown(self._lost.pop(0))))

    # ---- flushing

    def _schedule(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        try:
            if self._again:
                self._again = False
                self._tick()
            if self._lost:
                self._tick()
                self._tell_lost()
            effects = self._step(_FLUSH)
            if effects:
                self._carry_out(effects)
        except Exception as error:
            self.fail(error)
        self._flush_due = False
        dirty, self._dirty = self._dirty, []
        for link in dirty:
            link.flush()
        if self._again:
            self._schedule()

    def _timer_due(self) -> None:
        self._timer = None
        if self._timer_at_ms > _clock_ms():  # loop timers may come a little early
            self._set_timer(self._timer_at_ms)
            return
        try:
            self._tick()
        except Exception as error:
            self.fail(error)
        self._schedule()

    def _set_timer(self, at_ms: int) -> None:
        if self._timer is not None:
            if at_ms == self._timer_at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._loop.call_later(max(0, at_ms - _clock_ms()) / 1000, self._timer_due)

    # ---- effects

    def _carry_out(self, effects: list[Effect]) -> None:
        links, dirty = self.links, self._dirty
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                link = links.get(effect.peer)  # type: ignore[union-attr]
                if link is not None:
                    if not link.out:
                        dirty.append(link)
                    encode_onto(effect.frame, link.out)  # type: ignore[union-attr]
            elif kind is Multicast:
                data: list[bytes] = []
                encode_onto(effect.frame, data)  # type: ignore[union-attr]
                for peer in effect.peers:  # type: ignore[union-attr]
                    link = links.get(peer)
                    if link is not None:
                        if not link.out:
                            dirty.append(link)
                        link.out += data
            elif kind is SetTimer:
                self._set_timer(effect.at_ms)  # type: ignore[union-attr]
            elif kind is Again:
                self._again = True
                self._schedule()
            elif kind is Close:
                link = links.get(effect.peer)  # type: ignore[union-attr]
                if link is not None:
                    link.close(effect.code, effect.text)  # type: ignore[union-attr]
            elif kind is PauseClient:
                link = links.get(effect.peer)  # type: ignore[union-attr]
                if link is not None:
                    link.hold("flow", effect.paused)  # type: ignore[union-attr]
            elif kind is KeepAlive:
                link = links.get(effect.peer)  # type: ignore[union-attr]
                if link is not None:
                    link.heartbeat(effect.interval_ms, effect.patience_ms)  # type: ignore[union-attr]
            elif kind is WantSpare:
                self._on_want_spare()
            elif kind is Retire:
                self._retire(effect.reason)  # type: ignore[union-attr]
                return
            elif (deed := self._deeds.get(kind)) is not None:
                if (input := deed(effect)) is not None:
                    self._carry_out(self._step(input))
                    self._again = True
                    self._schedule()
            else:
                raise LocalError(f"there is no way to carry out {effect!r}: add a branch to Shell._carry_out")
        if dirty and not self._flush_due:
            self._schedule()

    def _hold_clients(self, reason: str, held: bool) -> None:
        if held == (reason in self._holds):
            return
        if held:
            self._holds.add(reason)
        else:
            self._holds.discard(reason)
        for link in self.links.values():
            if link.is_client:
                link.hold(reason, held)

    # ---- the end

    def hush(self) -> None:
        """Nothing that comes in counts any more: the cluster stops, and others that go are no news."""
        self._step = _nothing
        for dialler in self._diallers.values():
            dialler.hushed = True

    def _retire(self, reason: str) -> None:
        """The machine's part is over: what it has said still leaves, then this process ends."""
        log.info("%(member)s retires: %(reason)s", {"member": self.own.name, "reason": reason})
        self.retired = reason
        self.hush()
        for link in self.links.values():
            link.flush()
        # The loop may write only when this iteration is over.
        self._loop.call_later(LAST_WORD_S, self.fail, Retired(reason))

    def fail(self, error: BaseException) -> None:
        """Stop for good: nothing more is stepped, sent or accepted."""
        if self._stopped:
            return
        if not isinstance(error, Retired):
            what = "the disk failed" if isinstance(error, DiskFailed) else "the machine broke"
            log.critical(
                "%(member)s: %(what)s, and this process stops",
                {"member": self.own.name, "what": what, "reason": error}, exc_info=error,
            )  # fmt: skip
        self.failure = error
        self._stopped = True
        self._step = _nothing
        self._dirty.clear()
        self._lost.clear()
        for server in self._servers:
            server.close()
        for dialler in self._diallers.values():
            dialler.close()
        for link in list(self.links.values()):
            link.abort()
        self._on_failure(error)

    def report(self) -> ShellStatus:
        """Which links are open, with what versions and incarnations; and which were refused a moment ago."""
        peers = {name: link for name, link in sorted(self.links.items()) if not link.is_client}
        clients = Counter(spoken(link.minor) for link in self.links.values() if link.is_client)
        return ShellStatus(
            peers=list(peers),
            clients=clients.total(),
            version=spoken(self.own.minor),
            links={name: LinkStatus(version=spoken(link.minor), inc=link.inc) for name, link in peers.items()},
            client_versions=dict(clients),
            refused=self.refusals.named(self._loop.time()),
            refused_clients=self.refusals.report(),
        )


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _nothing(input: Input) -> list[Effect]:
    return []
