"""What a queue tells its users that it has counted: the same as the model's, which counts message by message."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.queue.statistics import figures

from .model import ModelQueue, Violation

IN_THE_MODEL = {
    "acquires": "acquired",
    "releases": "released",
    "bytes_in": "bytes in",
    "bytes_out": "bytes out",
    "ring": "pushed out",
    "last_value": "replaced",
    "purged": "purged",
    "subscriber": "rejected for good",
    "too_often": "back too often",
    "dead_expired": "expired",
    "dead_too_often": "delivery_limit",
    "dead_pushed_out": "maxlen",
    "dead_deleted": "deleted",
    "duplicates": "come before",
}


def same_counts(where: str, state: Any, model: ModelQueue) -> None:
    told = figures(state)._asdict()
    wanted = {name: model.counts.get(theirs, 0) for name, theirs in IN_THE_MODEL.items()}
    if told != wanted:
        differ = {name: (told[name], wanted[name]) for name in wanted if told[name] != wanted[name]}
        raise Violation(f"{where}: counts (machine, model): {differ}")
