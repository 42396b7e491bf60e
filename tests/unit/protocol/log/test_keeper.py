"""One stream's log at a voter: promises, appends, commits, trims and votes, without a machine around it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from made_up_logs import ONE, TWO, append, entries, entry, keeper
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.wire.events import ZERO, Entry, Rejoin, encode_event
from mantamq.protocol.wire.log_frames import Ack, Fetch, Fetched, Gap, LogReport, Nack
from mantamq.protocol.wire.version import MINOR


def test_a_keeper_hands_out_what_is_committed_once_and_in_order():
    one = Keeper("q#1", "b1")
    assert one.log_report() == LogReport("q#1", "b1", 0, ZERO, ZERO, minor=MINOR)
    assert one.append(append(0, entries(1, 3), 0)) == ([], None)
    assert one.ack(0) == Ack(ONE, "q#1", "b1", 3, 0)
    assert one.append(append(3, [entry(4)], 2)) == (entries(1, 2), None)
    assert one.append(append(4, [], 4)) == (entries(3, 4), None)
    assert one.append(append(4, [], 4)) == ([], None)
    assert one.append(append(4, [], 3)) == ([], None), "commit does not go back"
    assert (one.end, one.commit, one.end_ballot) == (4, 4, ONE)
    numbers = {"b1": (1, 4, 1)}
    assert one.log_report() == LogReport("q#1", "b1", 4, ONE, ONE, seq=4, commit=4, numbers=numbers, minor=MINOR)


def test_the_same_entries_again_change_nothing():
    one = keeper(3, 1)
    assert one.append(append(0, entries(1, 3), 3)) == (entries(2, 3), None)
    assert one.append(append(1, entries(2, 4), 3)) == ([], None)
    assert one.end == 4


def test_commit_reaches_no_further_than_the_append_that_carries_it():
    one = keeper(3)
    assert one.append(append(1, [], 3)) == ([entry(1)], None), "what follows may be another's"


def test_a_missing_entry_is_a_gap():
    one = keeper(2)
    assert one.append(append(3, [entry(4)], 4)) == ([], Gap(ONE, "q#1", "b1", 2))
    assert (one.end, one.commit) == (2, 0)
    assert one.append(append(2, entries(3, 4), 4)) == (entries(1, 4), None)


def test_a_lower_ballot_is_refused_and_changes_nothing():
    one = keeper(1)
    one.append(append(1, [entry(2, TWO)], 0, ballot=TWO, previous_ballot=ONE))
    assert one.append(append(2, [entry(3)], 2)) == ([], Nack(TWO))
    assert (one.promised, one.end, one.commit) == (TWO, 2, 0)
    assert one.append(append(0, [], 0)) == ([], Nack(TWO)), "not even a heartbeat"


def test_a_conflicting_suffix_is_dropped():
    one = keeper(4, 1)
    newer = append(2, [entry(3, TWO)], 3, ballot=TWO, previous_ballot=ONE)
    assert one.append(newer) == ([entry(2), entry(3, TWO)], None)
    assert (one.end, one.end_ballot, one.commit) == (3, TWO, 3)
    late = append(4, [entry(5, TWO)], ballot=TWO)
    assert one.append(late) == ([], Gap(TWO, "q#1", "b1", 3)), "the old entry 4 is gone"


def test_an_entry_before_that_does_not_match_is_a_gap_from_the_commit_on():
    one = keeper(4, 1)
    assert one.append(append(3, [entry(4, TWO)], ballot=TWO)) == ([], Gap(TWO, "q#1", "b1", 1))
    assert one.end == 4, "nothing is dropped before it is known what replaces it"
    whole = append(1, entries(2, 4, TWO), 4, ballot=TWO, previous_ballot=ONE)
    assert one.append(whole) == (entries(2, 4, TWO), None)


def test_what_is_committed_is_never_dropped():
    one = keeper(3, 2)
    assert one.append(append(0, entries(1, 3, TWO), 3, ballot=TWO)) == ([entry(3, TWO)], None)


def test_trimmed_entries_are_forgotten_and_the_rest_goes_on():
    one = keeper(5, 3)
    assert one.append(append(5, [], 3, trim=4)) == ([], None), "no further than what is committed"
    assert one.append(append(5, [entry(6)], 6, trim=3)) == (entries(4, 6), None)
    assert one.append(append(6, [], 6, trim=6)) == ([], None)
    assert one.append(append(6, [entry(7)], 7, trim=2)) == ([entry(7)], None)
    assert one.append(append(2, entries(3, 8), 8)) == ([entry(8)], None), "a repeat from before the trim"
    assert (one.end, one.commit) == (8, 8)


def test_a_promise_tells_all_that_a_sequencer_must_know_to_adopt_the_log():
    one = keeper(4, 2)
    one.promise(TWO)
    told = one.log_report()
    assert (told.promised, told.have, told.ballot, told.commit, told.numbers) == (TWO, 4, ONE, 2, {"b1": (1, 2, 1)})
    assert one.fetch(Fetch(TWO, "q#1", 3, 4)) == Fetched(TWO, "q#1", 3, ONE, entries(3, 4))
    assert one.fetch(Fetch(ONE, "q#1", 3, 4)) is None, "to the one it follows only"
    one.promise(ONE)
    assert one.promised == TWO, "a promise never goes back (K1)"
    assert one.append(append(4, [entry(5)], 5)) == ([], Nack(TWO)), "the older one has lost it"
    taken = append(4, [entry(5, TWO)], 5, ballot=TWO, previous_ballot=ONE)
    assert one.append(taken) == ([*entries(3, 4), entry(5, TWO)], None)


def test_what_an_older_sequencer_left_is_not_acknowledged_to_a_newer_one():
    one = keeper(4, 2)
    assert one.append(append(3, [], 2, ballot=TWO, previous_ballot=ONE)) == ([], None)
    assert one.ack(2).match == 3, "entry 4 is not the newer one's yet"


def test_a_blank_keeper_votes_again_when_its_return_is_committed():
    one = Keeper("q#1", "b1", life=9, blank=True)
    old, new = (encode_event(Rejoin("b1", inc)) for inc in (8, 9))
    rejoins = [Entry(ONE, index, "", 0, 0, event) for index, event in enumerate((old, new), 1)]
    one.append(append(0, rejoins, 1))
    assert one.blank, "that was an incarnation before it"
    assert one.log_report().uncommitted_incs == {"b1": 9}, "a newer sequencer must know of it, committed or not"
    one.append(append(2, [], 2))
    assert not one.blank


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5), st.integers(0, 14), st.integers(0, 12)), max_size=30))
def test_any_appends_of_one_log_hand_out_a_prefix_of_it(frames):
    """Lost, repeated, late: whatever of one sequencer's log arrives, each entry is handed out once, in order."""
    one = Keeper("q#1", "b1")
    handed: list[Entry] = []
    for previous, count, commit, trim in frames:
        end = one.end
        committed, refusal = one.append(append(previous, entries(previous + 1, previous + count), commit, trim=trim))
        handed += committed
        assert (refusal is not None) == (previous > end)
        assert one.end >= end
        assert handed == entries(1, one.commit)


def test_a_learner_commits_nothing_of_an_older_term_by_counting():
    follower = keeper(2)
    follower.voters = ["b1", "b2", "b3"]
    follower.append(append(0, entries(1, 2), ballot=TWO))
    follower.quorum_needed = 1
    assert follower.learn(Ack(TWO, "q#1", "b2", 2, 0)) == []
    follower.append(append(2, entries(3, 3, TWO), ballot=TWO, previous_ballot=ONE))
    assert [entry.seq for entry in follower.learn(Ack(TWO, "q#1", "b2", 3, 0))] == [1, 2, 3]
