"""A queue's state without its messages' bodies, as one value: an updater's sync point, and what replicas compare.

Raft calls it a snapshot. It travels as a msgpack array of its fields, so fields are only ever appended, with a default:
a program ignores fields newer than itself, and a field that an older program does not send keeps its default. The items
of a list are closed; anything new about them comes in a field of its own.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

import msgspec

from ..errors import BAD_FRAME, PeerError
from ..ranges import RangeSet, pairs
from .configured import Configured


class Counters(msgspec.Struct, array_like=True, frozen=True):
    """Messages that have come and gone, by how they went; how often the consume lock passed between brokers; messages
    that were refused; how often producers were held back; `wired` of `QueueState`; messages that were moved."""

    enqueued: int = 0
    accepted: int = 0
    discarded: int = 0
    dead_lettered: int = 0
    expired: int = 0
    handovers: int = 0
    refused: int = 0
    flow_stopped_count: int = 0
    wired: int = 0
    wired_next: int = 0
    moved: int = 0


class Tallies(msgspec.Struct, array_like=True):
    """What is counted of a queue and decides nothing (`statistics.py`).

    Attributes:
        bytes_in: of the messages that came in.
        releases: messages that came back from consumers.
        revoked: messages that went while a consumer held them.
        ring, last_value, purged, too_often: messages that went by that, the last by the limit of their deliveries.
        duplicates: messages that did not come in, since their ids were known.
        arrivals: (position, Unix ms): that message, and those behind it up to the next, came then or within a second.
            That is each replica's own.
        arrived_to: the position behind the last one for which that is known.
        raised: the levels of which an alert is not over (`alerts.py`). That is each replica's own, too.
    """

    bytes_in: int = 0
    releases: int = 0
    revoked: int = 0
    ring: int = 0
    last_value: int = 0
    purged: int = 0
    arrivals: list[tuple[int, int]] = []
    arrived_to: int = 1
    raised: list[str] = []
    too_often: int = 0
    duplicates: int = 0

    def copy(self) -> Tallies:
        return msgspec.structs.replace(self, arrivals=list(self.arrivals), raised=list(self.raised))


class QueueSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """The fields are those of `QueueState`; sets of positions are flat ranges.

    Attributes:
        acquired: (broker, incarnation, acquisition, ranges).
        batches: (index, broker, ranges).
        deliveries, expiry, numbers, evicted: (key, value). In `deliveries` are the positions delivered more than once;
            a program before minor 3 sends all that were delivered at all.
        marks: positions delivered at least once.
        refusals: (client, numbers that were refused, as ranges).
        flow_stopped: producers are held back.
        turn: the level whose turn it is, and how much of its share is used; empty: nothing was acquired yet.
        tallies: what is counted.
        uncounted: of `marks`, those that came back and were not delivered by what their consumers said.
        annotations: (position, what consumers noted on it).
        origins, origin_runs: who sent what (`Origins.told`).
        causes: (index of a batch, why its messages are set aside) where nobody rejected them. died: (cause, how many
            messages in all).
        dissolved: the brokers that know that it is deleted (`dissolution.py`).
        move_targets: (index of a batch, where it goes) of moved messages; moves: (token, how far that move is), in the
            order in which they went on (`moves.py`).
        times: position, and when the message there came, and those behind it up to the next (`enqueue_times.py`).
        named, holders: named senders (`NamedSenders.told`).
        ids, id_times: which message ids came lately, and when (`KnownIds.told`).
        delayed: (position, when it is due).
        configured: what policies have made of it since it was declared.
    """

    index: int
    next_position: int
    available: list[int]
    acquired: list[tuple[str, int, int, list[int]]]
    dead_lettering: list[int]
    batches: list[tuple[int, str, list[int]]]
    deliveries: list[tuple[int, int]]
    expiry: list[tuple[int, int]]
    owner: str
    grant: int
    numbers: list[tuple[str, int]]
    evicted: list[tuple[str, int]]
    absent: list[str]
    counters: Counters
    marks: list[int] = []
    refusals: list[tuple[str, list[int]]] = []
    flow_stopped: bool = False
    turn: list[int] = []
    tallies: Tallies = msgspec.field(default_factory=Tallies)
    uncounted: list[int] = []
    annotations: list[tuple[int, dict[str, Any]]] = []
    origins: list[str] = []
    origin_runs: list[int] = []
    times: list[int] = []
    causes: list[tuple[int, str]] = []
    died: list[tuple[str, int]] = []
    dissolved: list[str] = []
    ids: list[bytes] = []
    id_times: list[int] = []
    delayed: list[tuple[int, int]] = []
    move_targets: list[tuple[int, str, str, str, str]] = []
    moves: list[tuple[str, int, int, int, int]] = []
    named: list[tuple[str, int]] = []
    holders: list[tuple[str, str]] = []
    configured: Configured = Configured()

    def for_minor_2(self) -> QueueSnapshot:
        """The same for a program that passes over `marks`: every delivery count is in `deliveries`."""
        counts = dict.fromkeys(self._marked(), 1) | dict(self.deliveries)
        return msgspec.structs.replace(self, deliveries=list(counts.items()), marks=[])

    def _marked(self) -> Iterator[int]:
        return (position for first, last in pairs(self.marks) for position in range(first, last + 1))

    def live(self) -> RangeSet:
        """Positions of all messages that are not gone."""
        held = [pairs(ranges) for ranges in (*(r for *_, r in self.acquired), self.dead_lettering)]
        return live_of(self.available, [*held, ((position, position) for position, _ in self.delayed)])

    def canonical(self) -> QueueSnapshot:
        """The same in one order, without what each replica says for itself: equal queues have equal canonical
        snapshots. The order of `numbers` is state."""
        return msgspec.structs.replace(
            self,
            acquired=sorted(self.acquired),
            batches=sorted(self.batches),
            causes=sorted(self.causes),
            move_targets=sorted(self.move_targets),
            deliveries=sorted(self.deliveries),
            expiry=sorted(self.expiry),
            evicted=sorted(self.evicted),
            delayed=sorted(self.delayed),
            tallies=msgspec.structs.replace(self.tallies, arrivals=[], arrived_to=0, raised=[]),
            annotations=sorted(self.annotations, key=itemgetter(0)),
        )


def live_of(available: list[int], others: Iterable[Iterable[tuple[int, int]]]) -> RangeSet:
    """The positions that are available, together with those of other ranges."""
    live = RangeSet()
    live.update(sorted(chain(pairs(available), *others)))
    return live


def read_snapshot(state: Any) -> QueueSnapshot:
    """The snapshot in a frame's free-form field.

    Raises:
        PeerError: `bad-frame`, when it is none.
    """
    try:
        snapshot = msgspec.convert(state, QueueSnapshot)
    except msgspec.ValidationError as error:
        raise PeerError(BAD_FRAME, f"a queue's snapshot must be a msgpack array of its fields: {error}") from None
    held = (ranges for *_, ranges in (*snapshot.acquired, *snapshot.batches))
    for flat in (snapshot.available, snapshot.dead_lettering, snapshot.marks, snapshot.uncounted, *held):
        if len(flat) % 2 or any(not 0 < first <= last < snapshot.next_position for first, last in pairs(flat)):
            text = f"a queue's snapshot must hold ranges of positions before {snapshot.next_position}, not {flat[:8]}"
            raise PeerError(BAD_FRAME, text)
    for position, count in snapshot.deliveries:
        if not (0 < position < snapshot.next_position and count > 0):
            text = f"a queue's snapshot must hold counts of deliveries before {snapshot.next_position}, not "
            raise PeerError(BAD_FRAME, f"{text}{count} of {position}")
    if len(snapshot.times) % 2 or any(a >= b for a, b in pairwise([0, *snapshot.times[::2]])):
        text = f"a queue's snapshot must hold rising positions, each with its time, not {snapshot.times[:8]}"
        raise PeerError(BAD_FRAME, text)
    if strange := [position for position, _ in snapshot.annotations if not 0 < position < snapshot.next_position]:
        text = (
            f"a queue's snapshot must hold annotations of positions before {snapshot.next_position}, not {strange[:8]}"
        )
        raise PeerError(BAD_FRAME, text)
    _check_ids(snapshot.ids, snapshot.id_times)
    if any(not 0 < position < snapshot.next_position for position, _ in snapshot.delayed):
        text = f"a queue's snapshot must say when positions before {snapshot.next_position} are due, not others"
        raise PeerError(BAD_FRAME, text)
    runs = snapshot.origin_runs
    if (
        len(runs) % 2
        or any(not 0 <= which < len(snapshot.origins) for which in runs[1::2])
        or any(not 0 < first < then for first, then in pairwise([*runs[::2], snapshot.next_position]))
    ):
        text = "a queue's snapshot must say who sent what by positions that rise, each with one of its names, not "
        raise PeerError(BAD_FRAME, f"{text}{runs[:8]} of {len(snapshot.origins)}")
    return snapshot


def _check_ids(ids: list[bytes], times: list[int]) -> None:
    """Raises PeerError: `bad-frame`, it is not said of each id when it came."""
    if len(times) % 2 != bool(times) or sum(times[1::2]) != len(ids) or len(set(ids)) != len(ids):
        text = f"a queue's snapshot must say of each of its {len(ids)} message ids when it came, not {times[:8]}"
        raise PeerError(BAD_FRAME, text)
