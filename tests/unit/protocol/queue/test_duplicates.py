"""Numbers already seen of each client."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.queue.duplicates import LastNumbers, unseen
from mantamq.protocol.wire.events import Enqueue


def test_the_last_number_of_each_client():
    seen = LastNumbers()
    assert seen.last("a") == 0
    seen.note("a", 3)
    seen.note("b", 1)
    seen.note("a", 4)
    assert (seen.last("a"), seen.last("b"), seen.last("c")) == (4, 1, 0)
    assert seen.table() == [("b", 1), ("a", 4)]


def test_of_a_partly_repeated_enqueue_only_what_is_new_counts():
    event = Enqueue("a", [2, 3, 6, 7], [b"2", b"3", b"6", b"7"], [0, 100, 2, 300, 3, 400])
    assert unseen(event, 2) == ([b"3", b"6", b"7"], [1, 300, 2, 400])
    assert unseen(event, 6) == ([b"7"], [0, 400])


def test_the_one_longest_silent_is_forgotten_first():
    seen = LastNumbers(2)
    seen.note("a", 1)
    seen.note("b", 1)
    seen.note("a", 2)
    seen.last("b")  # asking is no sign of life: it is no part of the stream
    seen.note("c", 1)
    assert seen.table() == [("a", 2), ("c", 1)]
    assert seen.last("b") == 0


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 9)), max_size=40), st.integers(1, 5))
def test_the_table_is_the_latest_of_the_clients_latest_heard(notes, bound):
    seen = LastNumbers(bound)
    for client, number in notes:
        seen.note(client, number)

    def latest() -> Iterator[tuple[str, int]]:
        known: set[str] = set()
        for client, number in reversed(notes):
            if client not in known:
                known.add(client)
                yield client, number

    assert seen.table() == list(latest())[:bound][::-1]
