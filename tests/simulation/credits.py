"""A client never gets more than the credit it has said (I18), as it sees that itself."""

from __future__ import annotations

from typing import Any

import msgspec
from mantamq.protocol.wire.client_frames import AttachReceiver, Delivery, Flow, FlowDrained

from .model import Violation, opened
from .world import World

UNLIMITED = -1


class _Granted:
    """Credit of one receiver. `bytes` is an upper bound, or None once it was without limit."""

    def __init__(self) -> None:
        self.messages = 0
        self.bytes: int | None = 0
        self.since_drain = 0


class Credits:
    """Watches receivers of clients."""

    def __init__(self, world: World) -> None:
        self._granted: dict[tuple[str, int], _Granted] = {}
        world.watch(
            sent={AttachReceiver: self._attaches, Flow: self._flow},
            arrived={Delivery: self._delivered, FlowDrained: self._drained},
        )

    def credit(self, client: str, handle: int) -> int:
        """Messages of credit that a client has said and not used."""
        return self._granted[client, handle].messages

    def _attaches(self, source: str, target: str, frame: AttachReceiver) -> None:
        self._granted[source, frame.handle] = _Granted()

    def _flow(self, source: str, target: str, frame: Flow) -> None:
        granted = self._granted[source, frame.handle]
        granted.messages += frame.messages
        granted.since_drain = 0 if frame.drain else granted.since_drain + frame.messages
        if frame.bytes == UNLIMITED:
            granted.bytes = None
        elif granted.bytes is not None:
            granted.bytes += frame.bytes

    def _delivered(self, source: str, target: str, frame: Delivery) -> None:
        granted = self._granted[target, frame.handle]
        granted.messages -= len(frame.blobs)
        if granted.messages < 0:
            raise Violation(f"I18: {target} gets {-granted.messages} messages beyond its credit on {frame.handle}")
        if granted.bytes is not None:
            granted.bytes -= sum(map(_sent, frame.blobs))
            if granted.bytes < 0:
                raise Violation(f"I18: {target} gets {-granted.bytes} bytes beyond its credit on {frame.handle}")

    def _drained(self, source: str, target: str, frame: FlowDrained) -> None:
        granted = self._granted[target, frame.handle]
        granted.messages = granted.since_drain


def _sent(blob: bytes) -> int:
    """The bytes of a message as it was sent: what consumers noted on it is beside that."""
    fields = opened(blob)
    return len(blob) if len(fields) < 11 else len(msgspec.msgpack.encode(_cut(fields[:10])))


def _cut(fields: list[Any]) -> list[Any]:
    while fields[-1] is None or fields[-1] is False:
        del fields[-1]
    return fields
