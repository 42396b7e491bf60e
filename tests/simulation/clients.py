"""A simulated client: one connection, which answers nothing by itself; whoever drives it decides.

It says any frame at any time, nonsense among them, and is gone with its connection. Those on the product's own client
books are in `users.py`.
"""

from __future__ import annotations

from typing import Any

from mantamq.protocol.errors import LIMIT
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Blocked,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Failed,
    Flow,
    FlowDrained,
    MembersChanged,
    Open,
    Opened,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.flow_frames import FlowStopped
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.link_frames import Pong, Refused
from mantamq.protocol.wire.queue_frames import ACCEPT, MODIFY, REJECT, RELEASE, Modification
from mantamq.protocol.wire.verdict_frames import HeldBack

from .model import Violation, each, each_run
from .world import World

VERBS = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", MODIFY: "Modify"}
Item = tuple[int, int]
"""(acquisition, position)"""


class Link:
    """One sender (mode "") or receiver of a client.

    Attributes:
        target: queue name of a receiver; of a sender the key, for the reader only.
        closing: `Detach` was sent. `ended`: `Detached` has come, with `code`.
        held: what may be settled; past: what has been.
    """

    def __init__(self, target: str, mode: str = "", accept: bool = True) -> None:
        self.target = target
        self.mode = mode
        self.accept = accept
        self.attached = False
        self.closing = False
        self.ended = False
        self.code = ""
        self.next = 1
        self.completed: set[int] = set()
        self.failed: set[int] = set()
        self.limited: set[int] = set()  # of those, such as a queue at its limit has refused
        self.selector = ""
        self.mandatory = False
        self.unroutable: set[int] = set()
        self.held: list[Item] = []
        self.past: list[Item] = []
        self.draining = False
        self.settles = 0
        self.due = 0
        self.answered: set[int] = set()

    @property
    def open(self) -> bool:
        return self.attached and not self.closing and not self.ended


class Client:
    """One connection.

    Attributes:
        disposals: of what was said before `Detach`: (handle, number) -> (queue, verb, runs, the part of it that is stale).
        replies: command number -> its reply, None until it comes.
    """

    def __init__(self, world: World, name: str, broker: str, greets: bool = True) -> None:
        self.world, self.name, self.broker = world, name, broker
        self.opened = False
        self.replaced = False
        self.members: dict[str, str] = {}
        self.links: dict[int, Link] = {}
        self.disposals: dict[tuple[int, int], tuple[str, str, list[int], set[Item]]] = {}
        self.replies: dict[int, Reply | None] = {}
        world.connect(self, name, broker)
        if greets:
            self.send(Open(name))

    @property
    def alive(self) -> bool:
        return self.name in self.world.clients

    def outlives(self) -> bool:
        """Whether there is somebody to notice that this connection is closed."""
        return False

    def unread(self) -> None:
        """The broker reads the connection no further: it speaks no minor, so it cannot be told to send less."""

    def hung_up(self, reason: str) -> None:
        """The broker has closed the connection."""

    def send(self, frame: Frame) -> None:
        match frame:
            case Transfer():
                self.links[frame.handle].next = frame.first + len(frame.blobs)
            case Flow():
                link = self.links[frame.handle]
                link.draining = link.draining or frame.drain
            case Dispose():
                self._settling(frame)
            case AttachReceiver():
                accept = frame.accept and frame.mode == "consume"
                self.links[frame.handle] = Link(frame.queue, frame.mode, accept)
            case AttachSender():
                link = self.links[frame.handle] = Link(frame.key or "")
                link.mandatory = frame.mandatory
            case Detach():
                link = self.links[frame.handle]
                link.closing, link.due = True, link.settles
            case Command():
                self.replies[frame.number] = None
        self.world.post(self.name, self.broker, frame)

    def _settling(self, frame: Dispose) -> None:
        """Messages that are not held here are stale and must come back as lost."""
        link = self.links[frame.handle]
        items = each_run(frame.runs)
        wanted = set(items)
        stale = wanted.difference(link.held)
        link.settles += 1
        if not link.closing:  # otherwise what it held is on its way back already
            self.disposals[frame.handle, frame.number] = (link.target, VERBS[frame.kind], frame.runs, stale)
        link.held = [item for item in link.held if item not in wanted]
        link.past += [item for item in items if item not in stale]

    def receive(self, frame: Any) -> None:
        kind = type(frame)
        if kind is Opened:
            self.opened = True
        elif kind is MembersChanged:
            if not frame.members:
                raise Violation(f"{self.name}: is told of no member")
            self.members = frame.members
        elif kind is Reply:
            if self.replies[frame.number] is not None:
                raise Violation(f"I6 {self.name}: command {frame.number} is answered twice")
            self.replies[frame.number] = frame
        elif kind not in (Refused, Pong, Blocked, FlowStopped):
            self._on_link(frame, self.links[frame.handle])

    def _on_link(self, frame: Any, link: Link) -> None:
        match frame:
            case Attached():
                link.attached = True
            case Detached():
                if frame.code == "" and not link.answered.issuperset(range(1, link.due + 1)):
                    raise Violation(f"{self.name}: detached before its settlements are answered")
                link.ended, link.code = True, frame.code
                link.held.clear()
            case Completed():
                self._numbers(frame.ranges, link, link.completed)
                nowhere = set(each(frame.unroutable))
                if nowhere and (link.mandatory or nowhere - set(each(frame.ranges))):
                    raise Violation(f"{self.name}: {frame} is mandatory, or not complete")
                link.unroutable |= nowhere
            case Failed():
                self._numbers(frame.ranges, link, link.failed)
                if frame.code == "unroutable":
                    if not link.mandatory:
                        raise Violation(f"{self.name}: {frame} is not mandatory")
                    link.unroutable |= set(each(frame.ranges))
                elif frame.code == LIMIT:
                    link.limited |= set(each(frame.ranges))
            case HeldBack():
                pass
            case Delivery():
                if link.ended:
                    raise Violation(f"{self.name}: a delivery behind the end of the receiver")
                if frame.acquisition and link.accept:
                    link.held += [(frame.acquisition, position) for position in each(frame.ranges)]
            case FlowDrained():
                link.draining = False
            case Disposed():
                if frame.number in link.answered or frame.number > link.settles:
                    raise Violation(f"{self.name}: settlement {frame.number} is answered twice, or was never sent")
                link.answered.add(frame.number)
            case _:
                raise Violation(f"{self.name}: unexpected {frame}")

    def _numbers(self, ranges: list[int], link: Link, done: set[int]) -> None:
        for number in each(ranges):
            if number in link.completed or number in link.failed or number >= link.next:
                raise Violation(f"{self.name}: number {number} completes twice, or was never sent")
            done.add(number)

    # ---- what it can do

    def command(self, what: str, /, **arguments: Any) -> int:
        number = len(self.replies) + 1
        self.send(Command(number, what, arguments))
        return number

    def attach_sender(self, exchange: str, key: str | None, mandatory: bool = False) -> int:
        handle = len(self.links) + 1
        self.send(AttachSender(handle, exchange, key, 0, mandatory))
        return handle

    def attach_receiver(
        self, queue: str, mode: str = "consume", accept: bool = True, selector: str = "", exclusive: bool = False,
        priority: int = 0, no_local: bool = False,
    ) -> int:  # fmt: skip
        handle = len(self.links) + 1
        self.send(
            AttachReceiver(handle, queue, mode, accept, [], selector, int(exclusive), priority, no_local=no_local)
        )
        self.links[handle].selector = selector
        return handle

    def transfer(self, handle: int, count: int, ttl: list[int] | None = None, keys: list[str] | None = None) -> None:
        """Send `count` messages, no two of the story alike."""
        next_ = self.links[handle].next
        blobs = [f"{self.name}/{handle}:{next_ + i}".encode() for i in range(count)]
        self.transfer_bodies(handle, blobs, ttl, keys)

    def transfer_bodies(
        self, handle: int, blobs: list[bytes], ttl: list[int] | None = None, keys: list[str] | None = None
    ) -> None:
        self.send(Transfer(handle, self.links[handle].next, blobs, keys, ttl or []))

    def flow(self, handle: int, messages: int, bytes_: int = -1, drain: bool = False) -> None:
        self.send(Flow(handle, messages, bytes_, drain))

    def settle(self, handle: int, kind: int, items: list[Item], said: Modification | None = None) -> None:
        """Settle `items`; with `said` they are modified."""
        runs = [n for acquisition, position in items for n in (acquisition, position, position)]
        self.send(Dispose(handle, self.links[handle].settles + 1, kind if said is None else MODIFY, runs, said))

    def detach(self, handle: int) -> None:
        self.send(Detach(handle))
