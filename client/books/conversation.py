"""One connection's side of the conversation, without I/O: what to say, and what is known from what was heard.

The asyncio and the synchronous client are drivers around it: they bring frames in, carry bytes out, and wait until some
condition on these books holds. Not thread-safe: the driver serialises calls.

A conversation outlives its brokers. When the link breaks (`interrupted`) the books stay; `begin` greets another broker
under the same client id, and its greeting is answered with all that must be said anew: links under their old handles,
transfers that are not complete under their old numbers, credit, commands that may be asked twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ...protocol.errors import BUSY, NOT_FOUND, UNAVAILABLE, PeerError
from ...protocol.limits import DEFAULT
from ...protocol.queue.settings import ON_CLOSE
from ...protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Blocked,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Disposed,
    Failed,
    FlowDrained,
    MembersChanged,
    Open,
    Opened,
    Reply,
)
from ...protocol.wire.flow_frames import FlowStopped
from ...protocol.wire.frame import Frame
from ...protocol.wire.framing import FrameBuffer, check_depth, encode_frame
from ...protocol.wire.keepalive import Keepalive, Verdict
from ...protocol.wire.link_frames import Ping, Pong, Refused
from ...protocol.wire.verdict_frames import HeldBack
from ...protocol.wire.version import MINOR
from ..errors import ConnectionLost, Invalid, LinkClosed, MantaError, again, error
from .abilities import Abilities, of_another_cluster, too_old
from .plain import copied
from .receiver import ReceiverCore
from .requests import OpenRequests
from .send_gate import SendGate
from .sender import SenderCore

_ONCE = frozenset({"delete_queue", "delete_exchange", "purge", "reset_queue"})
"""Commands that, asked twice, may do something else the second time."""


class Conversation:
    """The books of one connection.

    Args:
        address: the broker's "host:port", for errors.
        token: what the cluster asks clients for; "" for none.
        write: sends bytes.
        heartbeat_ms: proposed heartbeat; 0 for none.
        reconnects: whether another broker may take over.
        patience_ms: how long a broker is asked to bear our silence; 0 for two heartbeats.
        limit_s: how long nothing may complete in a sender or receiver that is waited for; None: for ever.
        rescue: whether it only looks, also at a broker without a majority.
        client: the client id, by which brokers know repeats; "" for a new one.

    Attributes:
        opened: the last greeting of a broker.
        members: broker id to "host:port", as last heard.
        token: what was presented (the handle `Queue` carries it along).
        failure: why the connection is over, when it is.
        closed: it is over because its owner wanted that.
        online: a broker has greeted us and hears us.
        leave: why this broker must be left for another, "" while it need not.
        greetings, reconnects: how many brokers have greeted us; how many have taken over.
        interruptions: how often a broker that had greeted us was lost.
        beat: the heartbeat of this link, when one is agreed.
        gate: what its senders send goes through it.
        requests: those that wait for their replies.
        on_sender: is shown the books of each new sender, before anything is put into them.
    """

    def __init__(
        self, address: str, token: str, write: Callable[[bytes], None], heartbeat_ms: int = 0, reconnects: bool = False,
        patience_ms: int = 0, limit_s: float | None = None, rescue: bool = False, client: str = "",
    ) -> None:  # fmt: skip
        self.limit_s = limit_s
        self.address = address
        self.opened: Opened | None = None
        self.members: dict[str, str] = {}
        self.failure: MantaError | None = None
        self.replies: dict[int, Reply | MantaError] = {}
        self.token = token
        self.closed = False
        self.online = False
        self.leave = ""
        self.greetings = 0
        self.reconnects = 0
        self.interruptions = 0
        self.beat: Keepalive | None = None
        self.gate = SendGate(self.write)
        self.requests = OpenRequests()
        self.on_sender: Callable[[SenderCore], None] | None = None
        self._client = client or uuid.uuid4().hex
        self._may_reconnect = reconnects
        self._heartbeat_ms = heartbeat_ms
        self._patience_ms = patience_ms
        self._rescue = rescue
        self._left = address  # the broker that was lost last
        self._foreign: set[str] = set()  # addresses where another cluster's broker has answered, since this one's last
        self._write_bytes = write
        self._buffer = FrameBuffer()
        self._numbers = 0
        self._handles = 0
        self._asked: dict[int, Command] = {}
        self._unsent: set[int] = set()  # commands asked while no broker was there
        self._repeated: set[int] = set()  # commands asked again
        self._senders: dict[int, SenderCore] = {}
        self._receivers: dict[int, ReceiverCore] = {}
        self._frames: dict[int, AttachSender | AttachReceiver] = {}  # what attached each link
        self._attaching: dict[int, Attached | Detached | None] = {}
        self._reattaching: set[int] = set()
        self._detaching: set[int] = set()
        self._wired = 0  # up to where brokers that it has had know the cluster's wiring
        self._stopped = ""  # why flow control is on in the cluster
        self._has_own = False  # it may have queues for itself

    # ---- in and out

    def write(self, frame: Frame) -> None:
        if self.online:
            if self.beat is not None:
                self.beat.said = True
            self._write_bytes(encode_frame(frame))

    def open(self) -> None:
        """Greet the broker."""
        bounds = self._heartbeat_ms, self._patience_ms
        known = self.opened.cluster if self.opened is not None else "", self._wired
        greeting = Open(self._client, self.token, MINOR, *bounds, self._rescue, self.greetings + 1, *known)
        self._write_bytes(encode_frame(greeting))

    def feed(self, data: bytes) -> None:
        """Take bytes from the broker.

        Raises:
            PeerError: they are no frames; the connection must be closed.
        """
        if self.beat is not None:
            self.beat.heard = True
        try:
            frames, breach = self._buffer.feed(data), None
        except PeerError as error:
            frames, breach = getattr(error, "frames", []), error
        for frame in frames:
            rule = _RULES.get(type(frame))
            if rule is not None:
                rule(self, frame)
        if breach is not None:
            raise breach

    def tick(self) -> bool:
        """A third of a heartbeat has passed (`beat.tick_s`). False: the broker is silent and must be left."""
        beat = self.beat
        if beat is None:
            return True
        verdict = beat.tick()
        if verdict is Verdict.PING:
            self.write(Ping())
        elif verdict is Verdict.LOST:
            self.leave = "it was silent for two heartbeats"
        return verdict is not Verdict.LOST

    def look(self, now: float) -> None:
        """Called now and then, with the time: senders in which nothing completes any more say so."""
        for sender in self._senders.values():
            sender.look(now)

    def lost(self, failure: MantaError) -> None:
        """The connection is over: everything pending and later raises `failure`."""
        if self.failure is not None:
            return
        self.failure = failure
        self.online = False
        self.gate.begin()
        for link in self.links():
            link.ended(failure)

    def farewell(self) -> None:
        """Its owner closes the connection: say what has gathered, and that nobody comes back for its queues."""
        for link in self.links():
            link.flush()
        if self._has_own:
            self._numbers += 1
            self.write(Command(self._numbers, "leave", {}))
        self.closed = True
        self.lost(ConnectionLost("this connection was closed: connect again"))

    def lost_because(self, reason: str, tried: Iterable[str] = ()) -> None:
        """The link is lost for `reason`, and so is the connection; no broker at the addresses `tried` took over."""
        what = f"the broker at {self._left} cannot be reached any more ({reason})"
        others = ", ".join(one + " (another cluster's)" * (one in self._foreign) for one in tried)
        if others:
            what += f", and none took over in time of those tried: {others}"
        advice = "what was not complete may or may not have happened; connect again, to another broker if need be"
        self.lost(ConnectionLost(f"{what}: {advice}"))

    def check(self) -> None:
        if self.failure is not None:
            raise again(self.failure)

    # ---- another broker

    @property
    def searchable(self) -> bool:
        """Whether the loss of this link need not be the end."""
        return self._may_reconnect and self.opened is not None and self.failure is None

    @property
    def whole(self) -> bool:
        """Whether a broker has all our links."""
        return self.online and not self._reattaching

    def interrupted(self) -> None:
        """The link broke, and another broker will be tried. Called for every attempt that fails, too."""
        self.leave = ""
        self.beat = None
        if not self.online:
            return
        self.online = False
        self.gate.begin()
        self.interruptions += 1
        self._left = self.address
        self._reattaching.clear()
        for handle in list(self._detaching):
            self._ended(handle, LinkClosed("this link was closed: open another one"))
        for number, command in list(self._asked.items()):
            if command.name in _ONCE and number not in self.replies and number not in self._unsent:
                self.replies[number] = ConnectionLost(
                    f"the broker at {self.address} was lost before it answered {command.name}: whether it was done is "
                    "unknown; look, and ask again if need be"
                )
        for receiver in self._receivers.values():
            receiver.interrupted(self.opened.broker if self.opened is not None else "")

    def begin(self, address: str) -> None:
        """A link to another broker is there: greet it."""
        self.address = address
        self.leave = ""
        self._buffer = FrameBuffer()
        self.open()

    def _resume(self) -> None:
        """Say everything anew. What the broker refuses of it, it tells by `Detached`, and drops what follows."""
        for number, command in self._asked.items():
            if number not in self.replies:
                if number not in self._unsent:
                    self._repeated.add(number)
                self.write(command)
        self._unsent.clear()
        for handle, frame in self._frames.items():
            sender = self._senders.get(handle)
            if sender is not None:
                sender.held_back = []
                frame = msgspec.structs.replace(frame, next=sender.next)
            receiver = self._receivers.get(handle)
            if receiver is not None:
                flat, id = receiver.undeliverable.flat(), receiver.queue_id
                frame = msgspec.structs.replace(
                    frame, before=receiver.before, undeliverable=flat, undeliverable_in=id if flat else "", back=True
                )
            if isinstance(frame, AttachReceiver) and frame.exclusive:  # an earlier claim is ours still
                frame = msgspec.structs.replace(frame, exclusive=self.greetings)
            if sender is not None or receiver is not None:
                self._reattaching.add(handle)
            self.write(frame)
        for sender in self._senders.values():
            for transfer in sender.again():
                self.gate.send(transfer)
        for receiver in self._receivers.values():
            receiver.resume()

    # ---- commands

    def command(self, name: str, arguments: dict[str, Any]) -> int:
        self.check()
        arguments = copied(arguments, f"the arguments of {name}")  # it may be asked again
        try:
            check_depth([arguments], DEFAULT.depth)
        except PeerError as problem:  # a broker would end the connection
            raise Invalid(f"the arguments of {name} cannot be sent: {problem.text}") from None
        self._has_own = self._has_own or _is_its_own(arguments.get("arguments", {}))
        self._numbers += 1
        number = self._numbers
        command = self._asked[number] = Command(number, name, arguments)
        if not self.online:
            self._unsent.add(number)
        self.write(command)
        return number

    def replied(self, number: int) -> bool:
        return number in self.replies or self.failure is not None

    def forget(self, number: int) -> None:
        """Nobody waits for this command any more."""
        self._asked.pop(number, None)
        self._unsent.discard(number)
        self._repeated.discard(number)
        self.replies.pop(number, None)

    def result(self, number: int) -> Any:
        """The value of a command that was answered.

        Raises:
            MantaError: what the broker said went wrong.
        """
        reply = self.replies.pop(number, None)
        command = self._asked.pop(number, None)
        if reply is None:
            self.check()
            raise LinkClosed("the command was given up")
        if isinstance(reply, MantaError):
            raise reply
        if reply.code:
            if (
                reply.code == NOT_FOUND
                and number in self._repeated
                and command is not None
                and command.name == "unbind"
            ):
                return None  # it was done the first time
            raise error(reply.code, reply.text)
        return reply.value

    # ---- attaching

    @property
    def abilities(self) -> Abilities:
        """What the broker can be asked for."""
        return Abilities(self.opened, self.address)

    def claim(self, exclusive: bool, mode: str = "consume") -> int:
        """Whether a receiver is to have its queue alone, as it is sent: see `AttachReceiver`.

        Raises:
            Invalid, NotAllowed: as `Abilities.exclusive`.
        """
        return max(1, self.greetings) if self.abilities.exclusive(exclusive, mode) else 0

    def attach(self, make: Callable[[int], AttachSender | AttachReceiver]) -> int:
        self.check()
        self._handles += 1
        handle = self._handles
        self._attaching[handle] = None
        frame = self._frames[handle] = make(handle)
        self.write(frame)
        return handle

    def attached(self, handle: int) -> bool:
        return self._attaching.get(handle) is not None or self.failure is not None

    def _attachment(self, handle: int) -> Attached:
        answer = self._attaching.pop(handle, None)
        # The connection may have ended after the answer came: a link made now would never hear of it.
        self.check()
        if not isinstance(answer, Attached):
            assert isinstance(answer, Detached)
            self._frames.pop(handle, None)
            raise error(answer.code, answer.text)
        return answer

    def sender(
        self, handle: int, address: str, keyed: bool, capacity: int, limit_s: float | None = None,
        kind: type[SenderCore] = SenderCore,
    ) -> SenderCore:  # fmt: skip
        """The sender whose attach was answered, with books of that kind."""
        answer = self._attachment(handle)
        assert self.opened is not None
        try:
            core = kind(
                handle, address, keyed, answer.headers, capacity, self.opened.message_bytes, self.gate.send,
                answer.next, limit_s,
            )  # fmt: skip
        except Invalid:
            self._give_up(handle)
            raise
        self._senders[handle] = core
        core.stopped = self._stopped
        if self.on_sender is not None:
            self.on_sender(core)
        return core

    @property
    def has_senders(self) -> bool:
        return bool(self._senders)

    def receiver(
        self, handle: int, queue: str, capacity: int, settles: bool, browse: bool = False, window: str = "unfetched",
        kind: type[ReceiverCore] = ReceiverCore,
    ) -> ReceiverCore:  # fmt: skip
        """The receiver whose attach was answered, with books of that kind."""
        answer = self._attachment(handle)
        assert self.opened is not None
        try:
            most = self.opened.credit_messages
            core = kind(handle, queue, capacity, settles, self.write, browse, self.limit_s, window, most)
            if capacity > most:
                raise Invalid(f"a receiver's capacity is at most {most}, not {capacity}")
        except Invalid:
            self._give_up(handle)
            raise
        self._receivers[handle] = core
        core.attached(answer.queue)
        core.open()
        return core

    def _give_up(self, handle: int) -> None:
        """Nobody uses what was attached."""
        self._frames.pop(handle, None)
        self.write(Detach(handle))

    def abandon(self, handle: int) -> None:
        """Nobody waits for this attach any more: another broker is not asked for it, and what the answer to it has
        attached already is given up."""
        answer = self._attaching.pop(handle, None)
        self._frames.pop(handle, None)
        if isinstance(answer, Attached) and self.online:
            self.write(Detach(handle))

    def detach(self, handle: int) -> None:
        if self.failure is None and (handle in self._senders or handle in self._receivers):
            self._detaching.add(handle)
            if self.online:
                self.gate.detach(handle)
            else:
                self._ended(handle, LinkClosed("this link was closed: open another one"))

    def detached(self, handle: int) -> bool:
        return handle not in self._detaching or self.failure is not None

    def links(self) -> list[SenderCore | ReceiverCore]:
        """All open senders and receivers."""
        return [*self._senders.values(), *self._receivers.values()]

    def _ended(self, handle: int, why: LinkClosed | Detached) -> None:
        self._detaching.discard(handle)
        self._reattaching.discard(handle)
        self._frames.pop(handle, None)
        link = self._senders.pop(handle, None) or self._receivers.pop(handle, None)
        if link is not None:
            if isinstance(why, Detached):
                link.detached(why)
            else:
                link.ended(why)

    # ---- hearing

    def _on_opened(self, frame: Opened) -> None:
        self.leave = of_another_cluster(self.opened, frame)
        if self.leave:
            self._foreign.add(self.address)
            return
        by_several_keys = any(sender.by_several_keys for sender in self._senders.values())
        delayed = any(sender.delays for sender in self._senders.values())
        self.leave = too_old(frame.minor, self._frames.values(), by_several_keys, delayed)
        if self.leave:
            return
        self.opened = frame
        self._wired = max(self._wired, frame.wired)
        self._foreign.clear()
        self.members = frame.members
        if frame.heartbeat_ms > 0:
            self.beat = Keepalive(frame.heartbeat_ms)
        self.online = True
        self.gate.begin(frame.blocked)
        self._on_stopped(FlowStopped(""))
        self.greetings += 1
        if self.greetings > 1:
            self._resume()

    def _on_members(self, frame: MembersChanged) -> None:
        self.members = frame.members

    def _on_blocked(self, frame: Blocked) -> None:
        self.gate.tell(frame.on, self._senders)

    def _on_held_back(self, frame: HeldBack) -> None:
        sender = self._senders.get(frame.handle)
        if sender is not None:
            sender.held_back = frame.queues

    def _on_stopped(self, frame: FlowStopped) -> None:
        self._stopped = frame.reason
        for sender in self._senders.values():
            sender.stopped = frame.reason

    def _on_refused(self, frame: Refused) -> None:
        refusal = error(frame.code, frame.text)
        if self.opened is None:
            self.lost(refusal)
            return
        if self._may_reconnect and (not self.online or frame.code in (UNAVAILABLE, BUSY)):
            self.leave = f"{frame.code}: {frame.text}"
            return
        lost = ConnectionLost(f"the broker at {self.address} ended the connection ({frame.code}: {frame.text})")
        lost.__cause__ = refusal
        self.lost(lost)

    def _on_ping(self, frame: Ping) -> None:
        self.write(Pong())

    def _on_reply(self, frame: Reply) -> None:
        self._wired = max(self._wired, frame.wired)
        if frame.number in self._asked:
            self.replies[frame.number] = frame

    def _on_attached(self, frame: Attached) -> None:
        self._wired = max(self._wired, frame.wired)
        self._reattaching.discard(frame.handle)
        if (receiver := self._receivers.get(frame.handle)) is not None:
            receiver.attached(frame.queue)
        sender = self._frames.get(frame.handle)
        if isinstance(sender, AttachSender) and frame.queue:  # at other brokers no other queue of that name is meant
            self._frames[frame.handle] = msgspec.structs.replace(sender, queue=frame.queue)
        if frame.handle in self._attaching:
            self._attaching[frame.handle] = frame
        elif frame.handle not in self._frames:  # nobody waited for it any more
            self.write(Detach(frame.handle))

    def _on_detached(self, frame: Detached) -> None:
        handle = frame.handle
        if handle in self._attaching:
            self._attaching[handle] = frame
        elif frame.code == UNAVAILABLE and self._may_reconnect and handle in self._frames:
            self.leave = f"{frame.code}: {frame.text}"
        else:
            closed = LinkClosed("this link was closed: open another one")
            self._ended(handle, frame if frame.code else closed)

    def _on_completed(self, frame: Completed | Failed) -> None:
        sender = self._senders.get(frame.handle)
        if sender is not None:
            sender.completed(frame)

    def _on_delivery(self, frame: Delivery) -> None:
        receiver = self._receivers.get(frame.handle)
        if receiver is not None:
            receiver.delivered(frame)

    def _on_disposed(self, frame: Disposed) -> None:
        receiver = self._receivers.get(frame.handle)
        if receiver is not None:
            receiver.disposed(frame)

    def _on_drained(self, frame: FlowDrained) -> None:
        receiver = self._receivers.get(frame.handle)
        if receiver is not None:
            receiver.on_drained(frame.available)


_RULES: dict[type[Frame], Callable[[Conversation, Any], None]] = {
    Opened: Conversation._on_opened,
    MembersChanged: Conversation._on_members,
    Blocked: Conversation._on_blocked,
    HeldBack: Conversation._on_held_back,
    FlowStopped: Conversation._on_stopped,
    Refused: Conversation._on_refused,
    Ping: Conversation._on_ping,
    Reply: Conversation._on_reply,
    Attached: Conversation._on_attached,
    Detached: Conversation._on_detached,
    Completed: Conversation._on_completed,
    Failed: Conversation._on_completed,
    Delivery: Conversation._on_delivery,
    Disposed: Conversation._on_disposed,
    FlowDrained: Conversation._on_drained,
}


def _is_its_own(declared: dict[str, Any]) -> bool:
    """Whether a queue that is declared with these arguments is to be the client's alone, and go with it."""
    return declared.get("manta.exclusive", False) is not False or declared.get("qpid.lifetime-policy") == ON_CLOSE
