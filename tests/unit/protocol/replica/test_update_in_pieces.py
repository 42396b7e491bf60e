"""Updates between two copies of a queue: a sync point in pieces, updaters that die, begin anew, or are overtaken.

Both sides are real hosted queues; a test carries their frames, in the order of each link.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from mantamq.protocol.errors import BAD_FRAME
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.replica.ownerships import Ownerships
from mantamq.protocol.replica.update import Pace
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import ZERO, Accept, Acquire, AnyEvent, Enqueue, Entry, Own, encode_event
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import (
    Append,
    LogReport,
    Update,
    UpdateFront,
    UpdatePiece,
    UpdateStart,
    UpdateTaken,
)
from mantamq.protocol.wire.version import MINOR
from msgspec.structs import replace

from tests.unit.replica_outbox import KeptOutbox

ONE = (1, 7)
IN_PIECES = replace(DEFAULT, update_piece_bytes=60, update_chunk_bytes=1)
"""Every sync point goes in pieces, and each message in a chunk of its own."""
WHOLE = replace(IN_PIECES, update_piece_bytes=DEFAULT.update_piece_bytes)


class Copy:
    """A copy of ``q#1`` at the replica `name`: a voter's, or a blank one's.

    Attributes:
        out: what it has said to each peer that nobody has carried there yet.
    """

    def __init__(self, name: str, blank: bool = False, limits: Limits = IN_PIECES) -> None:
        self.outbox = KeptOutbox()
        self.outbox.name, self.outbox.broker = name, name.partition(".")[0]
        self.outbox.fellows = {"b1.r0", "b2.r0", "b3.r0"} - {name}
        self.keeper = Keeper("q#1", self.outbox.broker, 2, blank, ONE, ["b1", "b2", "b3"])
        pace, ownerships = Pace(limits.update_process_bytes_s), Ownerships(self.outbox)
        self.queue = HostedQueue(
            "q#1", QueueSettings(), self.keeper, ownerships, pace, count(1), self.outbox, DEFAULT_TIMING, limits
        )
        self.out: dict[str, list[Frame]] = {}

    def commit(self, *events: AnyEvent) -> None:
        for event in events:
            end = self.keeper.end
            entry = Entry(ONE, end + 1, "", 0, 0, encode_event(event))
            self.queue.append("sequencer", Append(ONE, "q#1", end, ONE if end else ZERO, end + 1, 0, [entry]))
        self.say()

    def give(self, updatee: str = "b1.r0", minor: int = MINOR) -> None:
        self.queue.give_update("sequencer", Update("q#1", updatee, minor))
        self.say()

    def hear(self, peer: str, frame: Any) -> None:
        queue = self.queue
        if isinstance(frame, UpdateTaken):
            queue.catch_up.taken(peer, frame)
        elif not isinstance(frame, LogReport):
            {UpdateStart: queue.update_started, UpdatePiece: queue.update_piece, UpdateFront: queue.update_front}[
                type(frame)
            ](peer, frame)
        self.say()

    def say(self) -> None:
        while self.queue.serve():
            pass
        sent, self.outbox.sent = self.outbox.sent, []
        for peer, frame in sent:
            self.out.setdefault(peer, []).append(frame)

    def tells(self, other: Copy, most: int = 1_000) -> list[Frame]:
        """The other hears what this one has said to it, or the first of it."""
        said = self.out.get(other.outbox.name, [])
        now, said[:] = said[:most], said[most:]
        for frame in now:
            other.hear(self.outbox.name, frame)
        return now

    def later(self) -> None:
        """Whatever waits for its pace may go on."""
        self.outbox.now_ms += 1_000
        self.say()


def voter(name: str = "b2.r0", limits: Limits = IN_PIECES) -> Copy:
    """Six messages that expire."""
    copy = Copy(name, limits=limits)
    copy.commit(Enqueue("c", [1, 6], [b"%d" % n for n in range(1, 7)], [n for i in range(6) for n in (i, 5000 + i)]))
    return copy


def finish(updater: Copy, updatee: Copy) -> list[Frame]:
    """Carry frames between the two until none is left."""
    carried: list[Frame] = []
    while any(side.out.get(other.outbox.name) for side, other in ((updater, updatee), (updatee, updater))):
        carried += updater.tells(updatee) + updatee.tells(updater)
        updatee.later()
    return carried


def same(one: Copy, other: Copy) -> bool:
    return one.queue.state.digest() == other.queue.state.digest()


def test_a_sync_point_in_pieces_brings_the_same_queue():
    updater, updatee = voter(), Copy("b1.r0", blank=True)
    updater.give()
    assert len(updater.out["b1.r0"]) == IN_PIECES.update_chunks, "no more is under way at a time"
    carried = finish(updater, updatee)
    pieces = [frame for frame in carried if isinstance(frame, UpdatePiece)]
    fronts = [frame for frame in carried if isinstance(frame, UpdateFront)]
    assert len(pieces) > 2 and [front.chunk for front in fronts] == list(range(len(pieces) + 1, len(pieces) + 7))
    assert same(updater, updatee) and not updater.queue.catch_up.given
    told = [frame for frame in updatee.out["sequencer"] if isinstance(frame, UpdateTaken)]
    assert [frame.chunk for frame in told] == [piece.chunk for piece in pieces], "the sequencer knows of the progress"


def test_pieces_keep_the_pace_of_updates():
    slow = replace(IN_PIECES, update_queue_bytes_s=1_000)
    updater, updatee = voter(), Copy("b1.r0", blank=True, limits=slow)
    updater.give()
    updater.tells(updatee)
    assert not updatee.tells(updater) and updatee.outbox.timers
    updatee.later()
    assert updatee.tells(updater) == [UpdateTaken("q#1", 2, 1)]


@pytest.mark.parametrize("most", range(1, 6))
def test_the_updater_dies_in_the_middle_of_its_pieces(most):
    dying, updater, updatee = voter(), voter("b3.r0"), Copy("b1.r0", blank=True)
    dying.give()
    for _ in range(most):
        dying.tells(updatee, 1)
        updatee.tells(dying)
    updatee.out.clear()
    updatee.queue.peer_down("b2.r0")
    updatee.say()
    reports = [frame for frame in updatee.out.get("sequencer", []) if isinstance(frame, LogReport)]
    assert [report.have for report in reports] == [0], "it holds nothing, and another updater is named"
    assert not updatee.queue.catch_up._pieces.updater
    updater.give()
    finish(updater, updatee)
    assert same(updater, updatee)


@pytest.mark.parametrize("most", range(1, 6))
def test_another_updater_begins_in_the_middle(most):
    """The first one is told that it need not go on, and keeps nothing of the update."""
    first, second, updatee = voter(), voter("b3.r0"), Copy("b1.r0", blank=True)
    first.give()
    for _ in range(most):
        first.tells(updatee, 1)
        updatee.tells(first)
    second.commit(Own("b3", 1), Acquire("b3", 2, 1, [1, 1, 2]), Accept("b3", 2, [1, 1, 2]))
    second.give()
    second.tells(updatee, 1)
    finish(second, updatee)
    updatee.tells(first)
    assert not first.queue.catch_up.given
    first.tells(updatee)
    assert same(second, updatee) and not same(first, updatee)


def test_an_updater_that_begins_anew_is_not_mixed_with_what_it_began():
    """It was named twice. The sync point of the second comes when the first has brought more than that, and the second's
    chunks are cut otherwise: taken for the first's, messages would be missing for good."""
    for limits in (WHOLE, IN_PIECES):
        updater, updatee = voter(limits=limits), Copy("b1.r0", blank=True, limits=limits)
        updater.give()
        while not updatee.queue.updating:
            updater.tells(updatee, 1)
            updatee.tells(updater)
        updater.tells(updatee, 1)
        dequeued = (Own("b2", 1), Acquire("b2", 2, 1, [1, 4, 6]), Accept("b2", 2, [1, 4, 6]))
        updater.commit(*dequeued)
        updatee.commit(*dequeued)
        updater.give()
        finish(updater, updatee)
        assert updatee.queue.state.blobs == {1: b"1", 2: b"2", 3: b"3"} and same(updater, updatee)


def test_a_stale_answer_opens_no_window():
    updater, updatee = voter(), Copy("b1.r0", blank=True)
    updater.give()
    updater.give()
    updater.hear("b1.r0", UpdateTaken("q#1", 2, 1))
    assert [frame.number for frame in updater.out["b1.r0"] if isinstance(frame, UpdatePiece)] == [1, 1, 2, 2]
    finish(updater, updatee)
    assert same(updater, updatee)


def test_who_votes_takes_no_pieces():
    updater, other = voter(), voter("b1.r0")
    updater.give()
    finish(updater, other)
    assert not updater.queue.catch_up.given and other.queue.serving


def test_pieces_that_are_not_what_they_say_end_the_link():
    updater, updatee = voter(), Copy("b1.r0", blank=True)
    updater.give()
    for _ in range(100):
        said = updater.out.get("b1.r0", [])
        said[:] = [
            replace(frame, data=b"?" * len(frame.data)) if isinstance(frame, UpdatePiece) else frame for frame in said
        ]
        updater.tells(updatee)
        updatee.tells(updater)
    ((peer, error),) = updatee.outbox.refused
    assert (peer, error.code) == ("b2.r0", BAD_FRAME) and not updatee.queue.updating and not updatee.keeper.end


def test_an_updatee_of_an_older_minor_is_sent_no_pieces_and_answers_without_a_number():
    updater, updatee = voter(), Copy("b1.r0", blank=True)
    updater.give(minor=2)
    assert isinstance(updater.out["b1.r0"][0], UpdateStart)
    while said := updater.tells(updatee):
        assert not any(isinstance(frame, UpdatePiece) for frame in said)
        answers = updatee.out.get("b2.r0", [])
        answers[:] = [replace(frame, number=0) for frame in answers if isinstance(frame, UpdateTaken)]
        updatee.tells(updater)
        updatee.later()
    assert same(updater, updatee) and not updater.queue.catch_up.given
