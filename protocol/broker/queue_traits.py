"""What a broker must take out of messages for the queues that it routes them to (`queue/traits.py`), and which of these
have a say in what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..queue.relay import addressed
from ..queue.settings import QueueSettings
from ..queue.traits import Trait, carried_of, header_of, named_of
from ..wire.events import Enqueue, encode_event
from ..wire.settings import read
from ..wiring.definitions import QueueDefinition

Keys = Callable[[], list[list[str]]]
KNOWN = 10_000
"""So many queues are remembered; then all are looked up anew."""


def headers_of(blob: bytes) -> dict[str, Any]:
    """A message's properties, for exchanges that look at them where its client has not sent them beside it."""
    return header_of(blob).properties or {}


class Needs(NamedTuple):
    """Attributes:
    addressed: it is an exchange's own queue, where each message needs the keys it was sent with.
    named: as `trait`, of messages whose move names the queue.
    since: it may have a say since its policies changed: what it may refuse says that its sender knows.
    apart: either of `addressed` and `since`.
    """

    trait: Trait | None
    judges: bool
    addressed: bool = False
    named: Trait | None = None
    since: bool = False
    apart: bool = False


NOTHING = Needs(None, False)


class QueueTraits:
    """Args: definition_of: a queue by its id, which stays what it is until `forget` is called. broker: this one."""

    __slots__ = ("_broker", "_definition_of", "_known")

    def __init__(self, definition_of: Callable[[str], QueueDefinition | None], broker: str = "") -> None:
        self._broker = broker
        self._definition_of = definition_of
        self._known: dict[str, Needs] = {}

    def of(self, queue: str) -> Trait | None:
        """What that queue must know of each message; None: nothing, as a plain one."""
        return self.needs(queue).trait

    def judges(self, queue: str) -> bool:
        """Whether that queue says for itself what becomes of a transfer that is committed."""
        return self.needs(queue).judges

    def needs(self, queue: str) -> Needs:
        """What is special about sending to that queue."""
        if queue in self._known:
            return self._known[queue]
        definition = self._definition_of(queue)
        needs = NOTHING
        if definition is not None:
            settings = read(QueueSettings, definition.arguments)
            judges = settings.judges or definition.judged
            since, addressed = judges and definition.changed > 0, settings.exchange != ""
            needs = Needs(carried_of(settings), judges, addressed, named_of(settings), since, addressed or since)
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[queue] = needs
        return needs

    def forget(self) -> None:
        """Queues may be otherwise now."""
        self._known.clear()

    def enqueues(
        self, queues: Iterable[str], event: Enqueue, keys: Keys, named: bool = False
    ) -> list[tuple[str, bytes]]:
        """An encoded enqueue for each of these queues, with what it must know of the messages. `keys` says, if it is
        asked, by which each was sent. named: they are moved, to these queues by their names."""
        plain = b""
        parts: list[tuple[str, bytes]] = []
        for queue in queues:
            needs = self.needs(queue)
            if needs.trait is not None:
                traits = list(map((needs.named if named else None) or needs.trait, event.blobs))
                parts.append((queue, encode_event(replace(event, traits=traits, judged=needs.since))))
            elif needs.apart:
                parts.append((queue, encode_event(self._apart(event, needs, keys))))
            else:
                plain = plain or encode_event(event)
                parts.append((queue, plain))
        return parts

    def _apart(self, event: Enqueue, needs: Needs, keys: Keys) -> Enqueue:
        if needs.since:
            return replace(event, judged=True)
        blobs = [addressed(blob, own, self._broker) for blob, own in zip(event.blobs, keys(), strict=True)]
        return replace(event, blobs=blobs)
