"""The catalogue of a store that runs: saved behind, never on the way of a completion, and its failure a warning."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from made_up_logs import cluster_checkpoint as checkpoint
from made_up_logs import declarations as declared
from mantamq.actors.members.store_catalog import ASK_S, CatalogWriter
from mantamq.actors.supervisor.health import store_warnings
from mantamq.protocol.errors import StoreError
from mantamq.protocol.status.members import read_member
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    PROMISE,
    CheckpointRecord,
    PromiseRecord,
    encode_record,
)
from mantamq.store.catalog.refusals import CATALOG_UNAVAILABLE


class ToyCatalog:
    """`away`: it cannot be saved. Tells of each attempt; waits at each until it is let go, where it is told to."""

    def __init__(self) -> None:
        self.away = False
        self.closed = False
        self.saves: list[int] = []
        self.tried = threading.Semaphore(0)
        self.let_go: threading.Semaphore | None = None

    def load(self) -> CheckpointRecord | None:
        return None

    def save(self, checkpoint: CheckpointRecord) -> None:
        self.tried.release()
        if self.let_go is not None:
            self.let_go.acquire()
        if self.away:
            raise StoreError(CATALOG_UNAVAILABLE, "the server is away: start it")
        self.saves.append(checkpoint.index)

    def close(self) -> None:
        self.closed = True


class Case:
    def __init__(self, kind: type[CatalogWriter] = CatalogWriter) -> None:
        self.catalog = ToyCatalog()
        self.parted: list[int] = []  # what the log may part with, as told
        self.writer = kind(self.catalog, self.parted.append, 0.0)

    def show(self, index: int, lsn: int, low: int = 0) -> None:
        self.writer.note(CHECKPOINT, CLUSTER, checkpoint(index, low), lsn)


def nothing_is_parted_with_that_is_not_saved(kind: type[CatalogWriter] = CatalogWriter) -> None:
    case = Case(kind)
    case.catalog.away = True
    case.show(3, lsn=700, low=500)
    case.catalog.tried.acquire()
    case.catalog.tried.acquire()  # it is tried again
    assert case.parted == [] and case.writer.trouble == "the server is away: start it"
    case.catalog.away = False
    case.writer.close()
    assert case.catalog.saves == [3] and case.parted == [500], "parted with, and not saved"
    assert (case.writer.trouble, case.writer.index, case.catalog.closed) == ("", 3, True)


def only_the_latest_is_saved(kind: type[CatalogWriter] = CatalogWriter) -> None:
    case = Case(kind)
    case.catalog.let_go = threading.Semaphore(0)
    case.show(1, lsn=100)
    case.catalog.tried.acquire()  # the first is on its way
    for index in (2, 3, 4):
        case.show(index, lsn=100 * index)
    case.writer.note(PROMISE, "", encode_record(PromiseRecord((2, 1))), 450)
    case.catalog.let_go.release(5)
    case.writer.close()
    assert case.catalog.saves == [1, 4] and case.parted == [100, 400]


def a_checkpoint_is_asked_for_where_none_comes(kind: type[CatalogWriter] = CatalogWriter) -> None:
    """Once a second while the stream goes on; one that cannot be had is asked for ever less often."""
    case = Case(kind)
    case.writer.close()
    writer = kind(ToyCatalog(), case.parted.append, 1.0)
    assert not writer.lacks_checkpoint(100.0), "nothing is behind the catalogue"
    writer.note(ENTRIES, CLUSTER, declared(1, 2), 100)
    assert writer.lacks_checkpoint(100.0) and not writer.lacks_checkpoint(100.5)
    writer.note(CHECKPOINT, CLUSTER, checkpoint(2), 200)
    assert not writer.lacks_checkpoint(200.0)
    writer.note(ENTRIES, CLUSTER, declared(3, 3), 300)
    assert writer.lacks_checkpoint(201.0)
    asked = [at for at in range(202, 202 + 600) if writer.lacks_checkpoint(float(at))]
    waits = [after - before for before, after in pairwise(asked)]
    assert waits == sorted(waits) and ASK_S in waits and len(asked) < 20, "the log fills with checkpoints"
    writer.close()


STORIES = [
    nothing_is_parted_with_that_is_not_saved,
    only_the_latest_is_saved,
    a_checkpoint_is_asked_for_where_none_comes,
]


@pytest.mark.parametrize("story", STORIES)
def test_the_writer(story) -> None:
    story()


class Hasty(CatalogWriter):
    """It lets the log part with what it is about to save."""

    def _save(self, low: int, payload: bytes) -> float:
        self._saved(low)
        return super()._save(low, payload)


class Nagging(CatalogWriter):
    def lacks_checkpoint(self, now_s: float) -> bool:
        covered, at_s, _ = self._asked
        self._asked = covered + 1, at_s, 1.0  # never stuck
        return super().lacks_checkpoint(now_s)


@pytest.mark.parametrize(
    ("kind", "story"),
    [
        (Hasty, nothing_is_parted_with_that_is_not_saved),
        (Hasty, only_the_latest_is_saved),
        (Nagging, a_checkpoint_is_asked_for_where_none_comes),
    ],
)
def test_planted_bugs_are_found(kind, story) -> None:
    with pytest.raises(AssertionError):
        story(kind)


def test_a_failure_is_a_warning_of_the_cluster() -> None:
    machine = {"name": "b1.store", "promised": [0, 0], "groups": 1, "waiting": 0, "logs": {}, "left_bytes": 1}
    store = read_member(
        {
            "name": "b1.store",
            "role": "StoreNode",
            "machine": machine | {"pressed": False, "full": False, "catalog": "x"},
        }
    )
    text = "b1.store cannot save the wiring in its catalogue, and its transaction log grows: x"
    assert store_warnings([store]) == [text]
    assert store_warnings([read_member({"name": "b1.store", "role": "StoreNode"})]) == []
