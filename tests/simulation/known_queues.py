"""What a client knows is there for it at whatever broker it comes to: a queue that it has declared, or of which it has been
a receiver, is not said to be missing while it has not been deleted.

A broker may be behind the one that the client had before. What a client has heard counts, not what was on its way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mantamq.protocol.errors import NOT_FOUND
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Detached,
    Open,
    Reply,
)  # fmt: skip

from .lines import Line
from .model import Violation

if TYPE_CHECKING:
    from .checkers import Watcher
    from .world import World


class KnownQueues:
    """Attributes: judged: how often a client that knew a queue was told that it is not there."""

    def __init__(self, world: World, watch: Watcher) -> None:
        self._world, self._watch = world, watch
        self.judged = 0
        self._known: dict[tuple[str, str], str] = {}  # (client, queue) -> the id of that which it has heard is there
        self._attaching: dict[tuple[str, int], str] = {}  # (line, handle) -> queue
        self._asked: dict[tuple[str, int], tuple[str, set[str]]] = {}  # (line, number) -> queue, and ids it had since
        self._looks: set[str] = set()  # lines that only look, whose brokers may be old
        world.watch(
            sent={Open: self._opens, AttachSender: self._comes, AttachReceiver: self._comes, Command: self._asks},
            arrived={Attached: self._is_let_in, Detached: self._is_not, Reply: self._answered},
        )
        watch.on_wiring.append(lambda event: self._changed())

    def _changed(self) -> None:
        ids = self._watch.wiring.ids
        for queue, had in self._asked.values():
            if queue in ids:
                had.add(ids[queue])

    def _client(self, name: str) -> str:
        """Whose line it is; "" if nobody hears it any more, or it is no user's."""
        line = self._world.clients.get(name)
        return line.user.name if isinstance(line, Line) and line.user.line is line and name not in self._looks else ""

    def _id(self, queue: str) -> str:
        return self._watch.wiring.ids.get(queue, "")

    def _opens(self, source: str, target: str, frame: Open) -> None:
        if frame.rescue:
            self._looks.add(source)

    def _comes(self, source: str, target: str, frame: AttachSender | AttachReceiver) -> None:
        if isinstance(frame, AttachReceiver):
            self._attaching[source, frame.handle] = frame.queue
        elif frame.exchange == "" and frame.key is not None:
            self._attaching[source, frame.handle] = frame.key

    def _is_let_in(self, source: str, target: str, frame: Attached) -> None:
        queue, client = self._attaching.get((target, frame.handle), ""), self._client(target)
        if client and queue and frame.queue == self._id(queue):
            self._known[client, queue] = frame.queue

    def _is_not(self, source: str, target: str, frame: Detached) -> None:
        queue = self._attaching.pop((target, frame.handle), "")
        if frame.code == NOT_FOUND:
            self._missing(target, queue, source)

    def _asks(self, source: str, target: str, frame: Command) -> None:
        queue = frame.arguments.get("name") or ""
        if frame.name in ("declare_queue", "purge", "delete_queue") and queue and isinstance(queue, str):
            self._asked[source, frame.number] = queue, {self._id(queue)} - {""}

    def _answered(self, source: str, target: str, frame: Reply) -> None:
        queue, had = self._asked.pop((target, frame.number), ("", set()))
        client = self._client(target)
        if frame.code == NOT_FOUND:
            self._missing(target, queue, source)
        elif client and frame.code == "" and had == {self._id(queue)}:
            self._known[client, queue] = self._id(queue)

    def _missing(self, line: str, queue: str, broker: str) -> None:
        client = self._client(line)
        known = self._known.get((client, queue), "")
        self.judged += known != ""
        if known and known == self._id(queue):
            raise Violation(f"{client} knows that {known} is there, and {broker} says that there is no queue {queue!r}")
