"""A sync point in pieces: it arrives as it was, whatever other updaters' pieces come between, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.errors import BAD_FRAME, PeerError
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.log.pieces import Pieces, cut
from mantamq.protocol.wire.events import Entry
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.log_frames import UpdatePiece, UpdateStart
from mantamq.protocol.wire.version import MINOR
from msgspec.structs import replace

ONE = (1, 7)


def start(updater: str = "b2.r0", number: int = 1, index: int = 9, state: Any = None) -> UpdateStart:
    log = [Entry(ONE, index, "b1", 1, 1, b"e" * 40)]
    state = state if state is not None else [index, "x" * 50]
    return UpdateStart("q#1", updater, "b1.r0", index, ONE, index, {"b1": (1, 2, 3)}, {"b1": 4}, state, ["b1"], log,
                       number=number)  # fmt: skip


def pieces_of(whole: UpdateStart, most_bytes: int = 40) -> list[UpdatePiece]:
    """As they come out of the link."""
    found = cut(whole, MINOR, most_bytes)
    assert found is not None
    frames = [frame for piece in found for frame in FrameBuffer().feed(encode_frame(piece))]
    assert all(isinstance(frame, UpdatePiece) for frame in frames)
    return frames  # type: ignore[return-value]


def put_together(pieces: list[UpdatePiece]) -> list[UpdateStart]:
    """Every sync point that became whole."""
    updatee = Pieces(DEFAULT.depth)
    found = [updatee.whole() for piece in pieces if updatee.take(piece)]
    return [whole for whole in found if whole is not None]


@given(st.integers(1, 300))
def test_it_arrives_as_it_was(most_bytes):
    whole = start()
    size = len(encode_frame(whole)) - 6
    if size <= most_bytes:
        assert cut(whole, MINOR, most_bytes) is None, "in one frame"
        return
    pieces = pieces_of(whole, most_bytes)
    assert [len(piece.data) for piece in pieces[:-1]] == [most_bytes] * (len(pieces) - 1)
    assert len(pieces) == -(-size // most_bytes) and put_together(pieces) == [whole]


def test_a_program_of_an_older_minor_is_sent_no_pieces():
    assert cut(start(), 2, 1) is None


def test_a_new_updater_in_the_middle_starts_anew_and_the_old_one_is_not_heard():
    old, new = pieces_of(start("b2.r0")), pieces_of(start("b3.r0", index=11))
    assert put_together([*old[:2], *new, *old[2:]]) == [start("b3.r0", index=11)]
    assert put_together([*old[:2], *new[:1], *old[2:], *new[1:]]) == [start("b3.r0", index=11)]


def test_the_next_update_of_the_same_updater_is_another():
    """The same state, even: the chunks behind it are not the same."""
    first, second = pieces_of(start(number=1)), pieces_of(start(number=2))
    assert put_together([*first[:2], *second[:1], *first[2:]]) == []
    assert put_together([*first[:2], *second]) == [start(number=2)]


UPDATES = [start("b2.r0", 1, 9), start("b2.r0", 2, 9), start("b3.r0", 1, 9), start("b2.r0", 1, 10)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8)), max_size=12))
def test_pieces_of_two_updates_are_never_put_together(turns):
    """Each link keeps its order, an updater that was given up may go on, and one that died stops anywhere."""
    left = [pieces_of(whole) for whole in UPDATES]
    told: list[tuple[int, UpdatePiece]] = []
    for which, count in turns:
        told += ((which, piece) for piece in left[which][:count])
        left[which] = left[which][count:]
    assert all(whole in UPDATES for whole in put_together([piece for _, piece in told]))


@pytest.mark.parametrize(
    "damage",
    [
        lambda piece: replace(piece, data=piece.data[:-1] + b"?"),
        lambda piece: replace(piece, data=piece.data + b"?"),
    ],
)
def test_what_is_not_what_it_says_is_refused_and_forgotten(damage):
    whole = start()
    *pieces, last = pieces_of(whole)
    updatee = Pieces(DEFAULT.depth)
    for piece in [*pieces, damage(last)]:
        assert updatee.take(piece)
    with pytest.raises(PeerError, match=BAD_FRAME):
        updatee.whole()
    assert not updatee.updater and updatee.whole() is None
    assert [updatee.whole() for piece in [*pieces, last] if updatee.take(piece)][-1] == whole, "it may come again"


def test_pieces_of_something_else_are_refused():
    deep: list[Any] = []
    for _ in range(DEFAULT.depth + 1):
        deep = [deep]
    for state, text in ((deep, "nest"), ({"a": 1}, None)):
        pieces = pieces_of(start(state=[state, "x" * 100]))
        updatee = Pieces(DEFAULT.depth)
        for piece in pieces:
            updatee.take(piece)
        if text is None:
            assert updatee.whole() is not None
            continue
        with pytest.raises(PeerError, match=text):
            updatee.whole()
