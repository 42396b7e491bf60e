"""One queue's rejected batches, alone: pieces, their names and their order."""

from __future__ import annotations

from mantamq.protocol.limits import Limits
from mantamq.protocol.queue.batches import Batches
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.dead_letters import DeadLetters, piece_name


def rejected(**batches: list[int]) -> tuple[QueueState, DeadLetters]:
    """A queue of one-byte messages; `i7=[1, 3]`: event 7 has rejected the first three."""
    state = QueueState("q#1", "lost")
    state.blobs = {position: b"%d" % (position % 10) for position in range(1, 20)}
    state.batches = Batches({int(index[1:]): ("b1", ranges) for index, ranges in batches.items()})
    return state, DeadLetters(state, Limits(dead_letter_bytes=2))


def test_a_large_batch_goes_in_pieces_one_after_the_other():
    state, letters = rejected(i7=[1, 5])
    letters.begin(7)
    (first,) = letters.due()
    assert (first.id, first.blobs) == (7, [b"1", b"2"])
    letters.begin(7)
    assert letters.due() == [], "it is on its way"
    ((second,), whole) = letters.dead_lettered(first.id)
    assert (second.id, second.blobs, whole) == (piece_name(7, 1), [b"3", b"4"], 0)
    assert letters.dead_lettered(first.id) == ([], 0), "an answer that comes twice"
    ((third,), whole) = letters.dead_lettered(second.id)
    assert (third.blobs, whole) == ([b"5"], 0)
    assert letters.dead_lettered(third.id) == ([], 7), "now the batch is wholly enqueued"


def test_what_is_rejected_behind_a_large_batch_waits_for_its_last_piece():
    state, letters = rejected(i7=[1, 3], i8=[4, 4], i9=[5, 5])
    for index in (7, 8, 9):
        letters.begin(index)
    (first,) = letters.due()
    assert letters.due() == []
    asked, _ = letters.dead_lettered(first.id)
    assert [(frame.id, frame.blobs) for frame in asked] == [(piece_name(7, 1), [b"3"]), (8, [b"4"]), (9, [b"5"])]


def test_a_batch_that_another_broker_has_finished_stands_in_nobodys_way():
    state, letters = rejected(i7=[1, 5], i8=[6, 6])
    letters.begin(7)
    letters.begin(8)
    (first,) = letters.due()
    del state.batches[7]
    asked, whole = letters.dead_lettered(first.id)
    assert [frame.id for frame in asked] == [8] and whole == 0
    assert letters.dead_lettered(8) == ([], 8)
