"""A durable queue as a checkpoint on a disk has it, read by places and numbers of fields alone, against the model.

It shares no code with the product: the fields of a checkpoint are those listed in `store/log/README.md` and
`protocol/wire/records.py`, the fields of its outline those of `protocol/queue/snapshot.py`, counted by hand.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgpack

from .disk_parser import CHECKPOINT, ENTRIES, MESSAGE, ParsedLog, StreamOnDisk
from .model import ModelQueue, Violation, each

ENQUEUE = 2
OUTLINE = (
    "index", "next_position", "available", "acquired", "dead_lettering", "batches", "deliveries", "expiry", "owner",
    "grant", "numbers", "evicted", "absent", "counters", "marks", "refusals", "flow_stopped", "turn", "tallies", "uncounted",
    "annotations", "origins", "origin_runs", "times", "causes", "died", "dissolved", "ids", "id_times", "delayed",
    "move_targets", "moves", "named", "holders", "configured",
)  # fmt: skip
"""The fields of an outline in the order in which they are written; the first 14 are always there."""
Numbers = dict[str, tuple[int, int, int]]


def _read(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False)


# What follows is named by one checkpoint behind the other, and changed by nobody.


@lru_cache(maxsize=4_096)
def _moved(message: bytes) -> dict[int, bytes]:
    """Position -> body, in a record of messages."""
    ranges, blobs = _read(message)[:2]
    return dict(zip(each(ranges), blobs, strict=True))


@lru_cache(maxsize=4_096)
def _enqueued(entries: bytes, entry: int) -> list[bytes]:
    """The bodies in an entry of a record of entries."""
    event = _read(_read(entries)[2][entry][5])
    return event[3] if event[0] == ENQUEUE else []


class CheckpointOnDisk:
    """The last checkpoint of a stream.

    Attributes:
        index: of the last entry it stands for. life: that wrote it.
        numbers, over: last request of each origin, and which brokers' older ones are no longer known.
        outline: as written. extents: flat ``[first, last, LSN, entry, ...]``.
    """

    def __init__(self, log: ParsedLog, stream: str, disk: StreamOnDisk) -> None:
        self.records = {record.lsn: record for record in log.records if record.stream == stream}
        found = self.records[disk.checkpoint_lsn]
        assert found.kind == CHECKPOINT
        said: list[Any] = [*_read(found.payload)]
        said += [[], [], {}][len(said) - 14 :] if len(said) < 17 else []
        self.life: int = said[2]
        self.index: int = said[5]
        self.numbers: Numbers = {origin: tuple(seen) for origin, seen in said[8].items()}
        self.outline: bytes = said[13]
        self.extents: list[int] = said[14]
        self.over: dict[str, int] = said[16]

    def bodies(self, live: set[int], where: str) -> dict[int, bytes]:
        """The messages that the extents lead to."""
        found: dict[int, bytes] = {}
        flat = iter(self.extents)
        for first, last, lsn, entry in zip(flat, flat, flat, flat, strict=True):
            wanted = [position for position in range(first, last + 1) if position in live]
            if not wanted:
                continue
            record = self.records.get(lsn)
            if record is None:
                raise Violation(f"I23: {where} names {lsn} for the messages {first} to {last}: no record is there")
            if record.kind == MESSAGE:
                held = _moved(record.payload)
                found |= {position: held[position] for position in wanted if position in held}
            elif record.kind == ENTRIES:  # the last of an entry's bodies is that of the last position
                blobs = _enqueued(record.payload, entry)
                found |= {position: blobs[position - last - 1] for position in wanted if last - position < len(blobs)}
        return found


def compare_queue(where: str, checkpoint: CheckpointOnDisk, model: ModelQueue) -> None:
    """A checkpoint's queue is the model's at its index: what is complete is there, in order, and what is accepted is
    not."""
    said = dict(zip(OUTLINE, _read(checkpoint.outline), strict=False))
    index, next_position = said["index"], said["next_position"]
    if index != checkpoint.index:
        raise Violation(f"I23: {where} stands for {checkpoint.index} entries, and its queue has {index}")
    places: dict[int, object] = {}
    held = [(("held", broker, inc, acquisition), ranges) for broker, inc, acquisition, ranges in said["acquired"]]
    delayed: dict[int, int] = dict(said.get("delayed", []))
    later = [edge for position in sorted(delayed) for edge in (position, position)]
    if delayed != {position: model.due.get(position) for position in delayed}:
        raise Violation(f"I23: {where} at {index} has delayed {delayed}, the model says {model.due}")
    others = [("dead_lettering", said["dead_lettering"]), ("delayed", later)]
    for place, ranges in [("available", said["available"]), *held, *others]:
        if twice := places.keys() & set(each(ranges)):
            raise Violation(f"I23: {where} at {index} has {sorted(twice)[:5]} in two places")
        places |= dict.fromkeys(each(ranges), place)
    wanted = {position: model.place[position] for position in model.live}
    if places != wanted or next_position != len(model.place) + 1:
        every = sorted(places.keys() | wanted.keys())
        differ = {p: (places.get(p), model.place.get(p)) for p in every if places.get(p) != wanted.get(p)}
        raise Violation(f"I23: {where} at {index}: position -> (disk, model): {dict(list(differ.items())[:5])}")
    bodies = checkpoint.bodies(set(wanted), where)
    if bodies != model.live:
        wrong = [position for position in model.live if bodies.get(position) != model.live[position]]
        raise Violation(f"I23: {where} at {index} has not the bodies of {wrong[:5]}")
    notes = dict(said.get("annotations", []))
    if notes != {p: model.notes[p] for p in model.notes.keys() & model.live.keys()}:
        raise Violation(f"I23: {where} at {index} has noted {notes}, the model says {model.notes}")
    uncounted = dict.fromkeys(each(said.get("uncounted", [])), 0)
    counts = dict.fromkeys(each(said.get("marks", [])), 1) | dict(said["deliveries"]) | uncounted
    if counts != {p: model.returned[p] for p in model.returned.keys() & model.live.keys()}:
        raise Violation(f"I23: {where} at {index} was delivered {counts}, the model says {model.returned}")
    if (said["owner"], said["grant"]) != (model.owner, model.grant):
        raise Violation(f"I23: {where} at {index} is {said['owner']!r}'s under {said['grant']}, not {model.owner!r}'s")
    known = {client: max(seen) for client, seen in model.seen.items() if seen}
    if dict(said["numbers"]) != known:
        raise Violation(f"I23: {where} at {index} knows the numbers {said['numbers']}, the model says {known}")
    if dict(said.get("holders", [])) != model.holders:
        raise Violation(f"I23: {where} at {index}: {said['holders']} have names, the model says {model.holders}")
    if said.get("dissolved", []) != model.dissolved:
        raise Violation(f"I23: {where} at {index}: {said['dissolved']} know that it is deleted, not {model.dissolved}")
    stands = {token: tuple(stands) for token, *stands in said.get("moves", [])}
    targets = {batch: tuple(to) for batch, *to in said.get("move_targets", [])}
    if stands != model.stands or targets != {
        batch: (move.token, move.exchange, move.key, move.by) for batch, move in model.targets.items()
    }:
        raise Violation(f"I23: {where} at {index} has moves {stands}, {targets}, not {model.stands}, {model.targets}")


def compare_numbers(where: str, checkpoint: CheckpointOnDisk, numbers: Numbers) -> None:
    """A checkpoint knows the last request of each origin, or that its process is over."""
    for origin, seen in numbers.items():
        if seen[0] <= checkpoint.over.get(origin.partition(".")[0], -1):
            continue
        if checkpoint.numbers.get(origin) != seen:
            raise Violation(
                f"I23: {where} at {checkpoint.index} has of {origin} request {checkpoint.numbers.get(origin)}, it was {seen}"
            )
