"""Request numbers are known as long as their process may repeat a request, and no longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.numbers import drop_numbers, is_over, note_number
from mantamq.protocol.sequencer.election import adopt
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.events import AnyEvent, Ballot, Entry, Evict, Member, Rejoin, Return, Start, encode_event
from mantamq.protocol.wire.log_frames import Append, Fetch, Numbers

ONE: Ballot = (1, 7)
STEP = 10 * INCARNATIONS_PER_BROKER
"""Between the incarnations of one broker."""


def asked(origin: str, inc: int, number: int) -> Entry:
    return Entry(ONE, 1, origin, inc, number, b"x")


def own(event: AnyEvent) -> Entry:
    return Entry(ONE, 1, "", 0, 0, encode_event(event))


def tables(*entries: Entry | AnyEvent) -> tuple[Numbers, dict[str, int]]:
    numbers: Numbers = {}
    over: dict[str, int] = {}
    for one in entries:
        if isinstance(one, Entry):
            note_number(numbers, one)
        else:
            drop_numbers(numbers, over, one)
    return numbers, over


def test_an_eviction_drops_the_broker_and_its_replicas_and_nobody_else():
    mine = [asked("b1", 5, 3), asked("b1.r0", 6, 2), asked("b2", 5, 1), asked("b11", 5, 1), asked("ownership", 5, 9)]
    numbers, over = tables(*mine, Evict("b1", 1006))
    assert numbers == {"b2": (5, 1, 1), "b11": (5, 1, 1), "ownership": (5, 9, 1)}
    assert over == {"b1": 6}, "the newest that was dropped: of later ones there is nothing to forget"
    assert is_over(over, "b1", 5) and is_over(over, "b1.r0", 6) and not is_over(over, "b1", 7)
    assert not is_over(over, "b2", 1) and not is_over(over, "ownership", 1)


def test_a_queue_that_comes_back_alone_leaves_the_broker_that_lives_its_numbers():
    """A replica has died and another keeps the queue, under a later incarnation of the same broker."""
    numbers, over = tables(asked("b1", STEP, 3), asked("b1.r0", STEP, 2), Rejoin("b1", STEP + 1))
    assert set(numbers) == {"b1", "b1.r0"} and not over
    numbers, over = tables(asked("b1", STEP, 3), Rejoin("b1", STEP + INCARNATIONS_PER_BROKER - 1))
    assert set(numbers) == {"b1"} and not over, "the last incarnation that the broker may give a queue"


def test_a_broker_that_comes_back_or_joins_ends_its_older_incarnations():
    for event in (Rejoin("b1", 2 * STEP), Member("b1", 2 * STEP, True)):
        numbers, over = tables(asked("b1", STEP, 3), asked("b1.r0", STEP, 2), asked("b1.r4", 2 * STEP, 1), event)
        assert (numbers, over) == ({"b1.r4": (2 * STEP, 1, 1)}, {"b1": STEP})


def test_a_broker_that_leaves_takes_all_its_numbers_with_it():
    numbers, over = tables(asked("b4", STEP, 3), asked("b4.r0", STEP + 7, 2), Member("b4", STEP + 1007, False))
    assert (numbers, over) == ({}, {"b4": STEP + 7})


def test_other_events_and_those_that_a_member_asked_for_drop_nothing():
    """A broker whose replica has died puts that queue's incarnation out by itself, and goes on under the same one."""
    one = Keeper("q#1", "b1")
    evict = Entry(ONE, 2, "b1", STEP, 4, encode_event(Evict("b1", STEP)))
    entries = [asked("b1", STEP, 3), evict, own(Start(ONE))]
    one.append(Append(ONE, "q#1", 0, (0, 0), 3, 0, entries))
    assert one.numbers == {"b1": (STEP, 4, 1)} and not one.over


def test_an_update_brings_what_is_over():
    one, other = Keeper("q#1", "b1"), Keeper("q#1", "b2", life=9, blank=True)
    one.append(Append(ONE, "q#1", 0, (0, 0), 2, 0, [asked("b3", 5, 3), own(Evict("b3", 1005))]))
    other.restore(one.update("b1.r0", "b2.r0", None))
    assert (other.numbers, other.over) == (one.numbers, one.over) == ({}, {"b3": 5})


def test_an_adopted_log_says_what_is_over_though_the_eviction_is_trimmed_from_it():
    one = Keeper("q#1", "b1")
    one.append(Append(ONE, "q#1", 0, (0, 0), 3, 0, [asked("b3", 5, 3), own(Evict("b3", 1005)), asked("b2", 5, 1)]))
    one.append(Append(ONE, "q#1", 3, ONE, 3, 3, []))
    assert one.base == 3
    stream = Stream("q#1")
    stream.reports["b1"] = ("b1", one.log_report())
    adopt(stream, one.log_report(), None)
    assert stream.refuses("b3", 5) and stream.refuses("b3.r0", 4) and not stream.refuses("b3", 1006)
    assert stream.parts_held("b2", 5, 1) == 1


EVENTS = st.one_of(
    st.builds(asked, st.sampled_from(["b1", "b1.r0", "b2"]), st.sampled_from([1, STEP, STEP + 1]), st.integers(1, 9)),
    st.builds(lambda inc: own(Evict("b1", inc)), st.sampled_from([1001, STEP + 1001])),
    st.builds(lambda inc: own(Rejoin("b1", inc)), st.sampled_from([STEP, STEP + 1])),
    st.builds(lambda present: own(Member("b2", STEP + 1001 * (not present), present)), st.booleans()),
)


@given(st.lists(EVENTS, max_size=12), st.data())
def test_a_sequencer_that_adopts_knows_what_the_one_before_it_knew(entries, data):
    """Wherever the log was committed and trimmed, its keeper and whoever adopts it have the same tables."""
    first = Stream("q#1")
    for entry in entries:
        first.put(entry)
    commit = data.draw(st.integers(0, len(entries)))
    one = Keeper("q#1", "b1")
    one.append(Append(ONE, "q#1", 0, (0, 0), commit, 0, entries))
    one.append(Append(ONE, "q#1", len(entries), ONE, commit, data.draw(st.integers(0, commit)), []))
    report = one.log_report()
    fetched = one.fetch(Fetch(one.promised, "q#1", one.base + 1, one.end)) if one.base < one.end else None
    second = Stream("q#1")
    second.reports["b1"] = ("b1", report)
    adopt(second, report, fetched)
    assert (second.numbers, second.over) == (first.numbers, first.over)


def test_a_return_drops_what_a_rejoin_does():
    numbers, over = tables(asked("b1", STEP, 3), asked("b1.r0", STEP, 2), Return("b1", 2 * STEP))
    assert (numbers, over) == ({}, {"b1": STEP})
    numbers, over = tables(asked("b1", STEP, 3), Return("b1", STEP + 1))
    assert set(numbers) == {"b1"} and not over, "a queue alone has come back, at another replica"
