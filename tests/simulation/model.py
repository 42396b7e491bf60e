"""A plain model of a queue, written from the events' meaning and from nothing else. Slow, obvious, one message at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from mantamq.protocol import events


class Violation(AssertionError):
    """An invariant of `sequencer.md` section 6 does not hold."""


def each(flat: list[int]) -> list[int]:
    """Every number of flat ranges."""
    return [n for i in range(0, len(flat), 2) for n in range(flat[i], flat[i + 1] + 1)]


def each_run(flat: list[int]) -> list[tuple[int, int]]:
    """Every (acquisition, position) of flat runs."""
    return [(flat[i], n) for i in range(0, len(flat), 3) for n in range(flat[i + 1], flat[i + 2] + 1)]


@dataclass
class ModelQueue:
    """Attributes: place (position -> "available", ("held", broker, inc, acquisition), "dying", or how it went: "accepted",
    "discarded", "dead", "expired"), seen (client -> its numbers), ends (acquisition runs that no longer count)."""

    id: str
    alternate: bool
    place: dict[int, object] = field(default_factory=dict)
    blobs: dict[int, bytes] = field(default_factory=dict)
    expiry: dict[int, int] = field(default_factory=dict)
    seen: dict[str, set[int]] = field(default_factory=dict)
    owner: str = ""
    grant: int = 0
    settled: set[tuple[str, int, int, str]] = field(default_factory=set)
    unheld: set[tuple[str, int, int]] = field(default_factory=set)

    def apply(self, event: events.AnyEvent) -> None:
        match event:
            case events.Enqueue():
                self._enqueue(event)
            case events.Acquire():
                if event.broker != self.owner or event.grant != self.grant:
                    raise Violation(f"Q1 {self.id}: {event} while {self.owner!r} holds grant {self.grant}")
                for acquisition, position in each_run(event.runs):
                    if self.place[position] == "available":
                        held = ("held", event.broker, event.inc, acquisition)
                        self.place[position] = "accepted" if event.accepted else held
                    else:
                        self.unheld.add((event.broker, acquisition, position))
                        if type(self.place[position]) is tuple:
                            raise Violation(f"I10 {self.id}: {event} takes {position}, which is {self.place[position]}")
            case events.Accept() | events.Release() | events.Reject():
                self._settle(event)
            case events.Own():
                if event.grant != self.grant + 1 or (self.owner and event.by != self.owner):
                    raise Violation(f"I14 {self.id}: {event} while {self.owner!r} holds grant {self.grant}")
                self.owner, self.grant = event.broker, event.grant
            case events.Expire():
                for position in each(event.ranges):
                    if self.place[position] == "available" and self.expiry.get(position, 1 << 60) <= event.now_ms:
                        self.place[position] = "expired"
            case events.Purge():
                waiting = sorted(p for p, place in self.place.items() if place == "available")
                for position in waiting[: event.count or None]:
                    self.place[position] = "discarded"
            case events.Buried():
                for position in each(event.ranges):
                    if self.place[position] != "dying":
                        raise Violation(f"I13 {self.id}: {position} is buried but was {self.place[position]}")
                    self.place[position] = "dead"
            case _:
                pass

    def _enqueue(self, event: events.Enqueue) -> None:
        expiry = dict(zip(event.expiry[::2], event.expiry[1::2], strict=True))
        seen = self.seen.setdefault(event.client, set())
        for index, (number, blob) in enumerate(zip(each(event.numbers), event.blobs, strict=True)):
            if number in seen:
                raise Violation(f"I7 {self.id}: number {number} of {event.client} comes twice")
            seen.add(number)
            position = len(self.place) + 1
            self.place[position] = "available"
            self.blobs[position] = blob
            if index in expiry:
                self.expiry[position] = expiry[index]

    def _settle(self, event: events.Accept | events.Release | events.Reject) -> None:
        name = type(event).__name__
        for acquisition, position in each_run(event.runs):
            if self.place.get(position) != ("held", event.broker, event.inc, acquisition):
                continue
            self.settled.add((event.broker, acquisition, position, name))
            if name == "Accept":
                self.place[position] = "accepted"
            elif name == "Release":
                self.place[position] = "available"
            else:
                self.place[position] = "dying" if self.alternate else "discarded"

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for place in self.place.values():
            name = place if isinstance(place, str) else "held"
            found[name] = found.get(name, 0) + 1
        return found
