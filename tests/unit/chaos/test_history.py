"""The checker of chaos histories: every planted violation is found, and odd but allowed histories pass.

A history is written by hand, event by event, each a second after the one before. `s1` sends, `r1` and `r2` receive.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from chaos_story import Story

from tests.chaos import history, plants
from tests.chaos.journal import History, Journal, read, read_lines, take


@pytest.fixture
def story() -> Story:
    return Story()


# ---- what is allowed


def test_a_plain_history_passes_and_counts_what_was_checked(story):
    s, r = story.open("s1"), story.open("r1")
    for number in story.send(s, 5):
        story.consume(r, number)
    verdict = history.check(story.end(), strict=True)
    assert verdict.violations == []
    assert verdict.counts["loss checks"] == 5 and verdict.counts["accepts completed"] == 5
    assert verdict.counts["order checks"] == 4 and verdict.counts["place order checks"] == 4


def test_an_unknown_transfer_may_appear_or_not(story):
    s, r = story.open("s1"), story.open("r1")
    one, _ = story.send(s, 2, "unknown")
    story.consume(r, one)
    assert story.rules() == set()


def test_an_unknown_transfer_may_come_behind_later_ones_of_another_link(story):
    s = story.open("s1")
    story.send(s, 1, "unknown")  # still on its way inside the old broker
    story.close(s, broken=True)
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r, 2, position=1)
    story.consume(r, 1, position=2)
    assert story.rules() == set()


def test_a_transfer_never_answered_is_unknown(story):
    s = story.open("s1")
    story.sent(s)
    assert story.rules() == set()


def test_released_and_delivered_again_elsewhere(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    story.settle(r1, story.take(r1, 1), kind="release")
    story.consume(r2, 1, 1)
    assert story.rules(strict=True) == set()


def test_released_message_comes_out_of_order_but_flagged(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s, 3)
    first = story.take(r, 1)
    story.consume(r, 2)
    story.settle(r, first, kind="release")
    story.consume(r, 3)
    story.consume(r, 1, 1)
    assert story.rules(strict=True) == set()


def test_taken_back_from_a_dead_broker_whose_consumer_shows_its_delivery_late(story):
    """r1 has it in its buffer, its broker is evicted, r2 gets and accepts it; only then r1's application fetches it."""
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    arrived = story.t
    story.consume(r2, 1, 1)
    late = story.take(r1, 1, since=arrived)
    story.settle(r1, late, "lost")
    verdict = history.check(story.end())
    assert verdict.rules == set()
    assert verdict.counts["deliveries that showed late"] == 1


@pytest.mark.parametrize("outcome", ["lost", "unknown", "sent"])
def test_an_accept_that_did_not_count_and_the_message_again(story, outcome):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    held = story.take(r1, 1)
    story.settle(r1, held, outcome)
    story.consume(r2, 1, 1)
    assert story.rules() == set()


def test_an_accept_whose_answer_was_lost_and_the_message_never_again(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.settle(r, story.take(r, 1), "unknown")
    story.close(r, broken=True)
    assert story.rules() == set()


def test_never_delivered_and_flagged_all_the_same(story):
    """An evicted owner may have handed it out: it is flagged, and the flag promises nothing."""
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r, 1, 1)
    assert story.rules() == set()


def test_two_deliveries_of_equal_count_both_flagged(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    story.settle(r1, story.take(r1, 1, 1), "lost")
    story.consume(r2, 1, 1)
    assert story.rules() == set()


def test_order_is_each_producers_own_and_each_consumers_own(story):
    s1, s2, r1, r2 = story.open("s1"), story.open("s2"), story.open("r1"), story.open("r2")
    a, b = story.sent(s1, 2), story.sent(s2, 2)
    story.known(s2, b)
    story.known(s1, a)
    # In the queue: 1 of s2, 1 of s1, 2 of s2, 2 of s1; r2 shows the first two after r1 has had the others.
    for position, (producer, number) in enumerate([("s2", 1), ("s1", 1), ("s2", 2), ("s1", 2)], 1):
        story.places["q", producer, number] = position
    early = story.t
    story.consume(r1, 2, producer="s2")
    story.consume(r1, 2, producer="s1")
    story.consume(r2, 1, producer="s2", since=early)
    story.consume(r2, 1, producer="s1", since=early)
    assert story.rules(strict=True) == set()


def test_prefetched_by_a_closed_consumer_without_ever_being_shown(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    story.close(r1)
    story.consume(r2, 1, 1)
    assert story.rules(strict=True) == set()


def test_a_slow_answer_of_an_accept_across_a_delivery_of_before(story):
    """Delivered to r1, requeued, delivered to r2; r1's accept is refused though it was asked for first."""
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    held = story.take(r1, 1)
    story.settle(r1, held, "sent")
    story.consume(r2, 1, 1)
    story.answer(r1, held, "lost")
    assert story.rules() == set()


def test_a_cut_off_last_line_is_left_out(tmp_path):
    path = tmp_path / "s1.jsonl"
    journal = Journal(path, "s1")
    journal.write("open", link="s1/1", queue="q", role="sender", broker="b1")
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"op":"send","t":1')
    assert len(list(read_lines(path))) == 1
    assert history.check(read([path])).rules == {"unfinished"}


def rejected(story: Story, outcome: str = "completed") -> tuple[str, str]:
    """Message 1 is sent and rejected; returns its receiver and one of the queue for dead letters."""
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.settle(r, story.take(r, 1), outcome, kind="reject")
    return r, story.open("r3", "q.dead")


def dead(story: Story, link: str, position: int = 1, of: str = "q", **values: Any) -> int:
    return story.take(link, 1, queue="q.dead", of=of, position=position, **values)


def test_rejected_and_a_dead_letter(story):
    _, d = rejected(story)
    story.settle(d, dead(story, d))
    verdict = history.check(story.end(), strict=True)
    assert verdict.rules == set()
    assert verdict.counts["reject checks"] == verdict.counts["dead letter checks"] == 1


def test_a_reject_whose_answer_was_lost_and_a_dead_letter_or_none(story):
    _, d = rejected(story, "unknown")
    story.settle(d, dead(story, d))
    assert story.rules() == set()


def test_a_reject_whose_answer_was_lost_and_no_dead_letter(story):
    rejected(story, "unknown")
    assert story.rules() == set()


def test_opened_before_it_was_told(story):
    """A client that finds another broker by itself notices later: what came meanwhile may be older."""
    s, r1 = story.open("s1"), story.open("r1")
    story.send(s)
    early = story.t
    story.settle(r1, story.take(r1, 1, 1))
    r2 = story.open("r2")
    story.lines[-1]["at"] = early
    story.settle(r2, story.take(r2, 1, 1, since=early), "lost")
    assert story.rules() == set()


# ---- what is not


def test_rejected_and_no_dead_letter(story):
    rejected(story)
    assert story.rules() == {"lost"}


def test_rejected_and_twice_a_dead_letter(story):
    _, d = rejected(story)
    story.settle(d, dead(story, d))
    story.settle(d, dead(story, d, 2), "unknown")
    assert "duplicate" in story.rules()


def test_rejected_and_delivered_again(story):
    r, d = rejected(story)
    story.settle(d, dead(story, d))
    story.settle(r, story.take(r, 1, 1), "unknown")
    assert story.rules() == {"accepted again"}


@pytest.mark.parametrize(("kind", "outcome"), [("release", "completed"), ("reject", "lost"), ("accept", "unknown")])
def test_a_dead_letter_nobody_rejected(story, kind, outcome):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.settle(r, story.take(r, 1), outcome, kind=kind)
    d = story.open("r3", "q.dead")
    story.settle(d, dead(story, d))
    story.settle(r, story.take(r, 1, 1), "unknown")
    assert story.rules() == {"phantom"}


def test_a_dead_letter_that_was_accepted(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r, 1)
    d = story.open("r3", "q.dead")
    story.settle(d, dead(story, d))
    assert story.rules() == {"accepted again"}


def test_a_dead_letter_of_another_queue(story):
    _, d = rejected(story)
    story.settle(d, dead(story, d, of="other"))
    assert "misrouted" in story.rules()


def test_a_dead_letter_never_accepted(story):
    _, d = rejected(story)
    dead(story, d)
    assert story.rules() == {"vanished"}


def test_dead_letters_not_drained(story):
    story.drain = False
    rejected(story, "unknown")
    story.line("drained", "early", queue="q")
    assert story.rules() == {"undrained"}


def test_lost(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s, 2)
    story.consume(r, 2)
    assert story.rules() == {"lost"}


@pytest.mark.parametrize("kind", ["accept", "release"])
def test_vanished_after_it_went_back(story, kind):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.settle(r, story.take(r, 1), "lost" if kind == "accept" else "completed", kind)
    assert story.rules() == {"vanished"}


def test_vanished_when_its_consumer_broke_off(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s, 1, "unknown")
    story.take(r, 1)
    story.close(r, broken=True)
    assert story.rules() == {"vanished"}


def test_accepted_and_requeued(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    before = story.t
    story.consume(r1, 1)
    story.settle(r2, story.take(r2, 1, 1, since=before), "lost")
    assert story.rules() == {"accepted again"}


def test_accepted_and_requeued_before_the_answer_of_the_accept(story):
    """No clock can tell, the delivery count can: who was requeued from cannot accept."""
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    held = story.take(r1, 1)
    story.settle(r1, held, "sent")
    story.settle(r2, story.take(r2, 1, 1), "unknown")
    story.answer(r1, held)
    assert story.rules() == {"accepted again"}


def test_accepted_twice(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    one = story.take(r1, 1, 1)
    two = story.take(r2, 1, 1, since=0.0)
    story.settle(r1, one)
    story.settle(r2, two)
    verdict = history.check(story.end())
    assert [violation.rule for violation in verdict.violations] == ["accepted again"]


def test_accepted_and_delivered_on_a_link_opened_later(story):
    s, r1 = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r1, 1, 1)
    r2 = story.open("r2")
    story.settle(r2, story.take(r2, 1, 1, since=0.0), "unknown")
    assert story.rules() == {"accepted again"}


def test_accepted_and_arrived_elsewhere_later(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    story.consume(r1, 1, 1)
    story.settle(r2, story.take(r2, 1, 1), "unknown")
    assert story.rules() == {"accepted again"}


def test_accepted_and_again_on_the_same_link(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r, 1, 1)
    story.settle(r, story.take(r, 1, 1, since=0.0), "unknown")
    assert story.rules() == {"accepted again"}


def test_again_without_the_flag(story):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    before = story.t
    story.settle(r1, story.take(r1, 1), "unknown")
    story.close(r1, broken=True)
    story.consume(r2, 1, since=before)
    assert story.rules() == {"not flagged"}


@pytest.mark.parametrize("how", ["same link", "later link", "arrived later"])
def test_the_flag_fell_off(story, how):
    s, r1 = story.open("s1"), story.open("r1")
    r2 = story.open("r2") if how == "arrived later" else ""
    story.send(s)
    story.settle(r1, story.take(r1, 1, 1), kind="release")
    r2 = r2 or (story.open("r2") if how == "later link" else r1)
    story.consume(r2, 1, since=story.t + 0.5 if how == "arrived later" else 0.0)
    assert "not flagged" in story.rules()


def test_the_count_fell(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.settle(r, story.take(r, 1, 3), kind="release")
    story.consume(r, 1, 2)
    assert "count" in story.rules()


def test_in_the_queue_twice(story):
    s, r1 = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r1, 1)
    story.settle(r1, story.take(r1, 1, 1, position=7), "unknown")
    assert "duplicate" in story.rules()


def test_an_unknown_transfer_twice(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s, 1, "unknown")
    story.consume(r, 1)
    story.consume(r, 1, position=2)
    assert story.rules() >= {"duplicate", "not flagged", "accepted again"}


def test_two_messages_at_one_place(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s, 2)
    story.consume(r, 1, position=1)
    story.consume(r, 2, position=1)
    assert story.rules() == {"place"}


def test_out_of_order_to_one_consumer(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s, 3)
    for number in (1, 3, 2):
        story.consume(r, number)
    assert story.rules() == {"order"}


def test_out_of_order_to_one_consumer_across_senders_links(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.close(s)
    story.send(story.open("s1"))
    for number in (2, 1):
        story.consume(r, number)
    assert story.rules() == {"order"}


def only_consumer_come_back(story, resumed):
    """It has two of five messages, and its line breaks; it is here again. `resumed`: by the same connection."""
    story.send(story.open("s1"), 5)
    first = story.open("r1", alone=True, resumed=False)
    held = [story.take(first, number) for number in (1, 2)]
    story.close(first, broken=True)
    for id in held:
        story.settle(first, id, "lost")
    return story.open("r1", alone=True, resumed=resumed)


@pytest.mark.parametrize(("resumed", "rules"), [(True, {"order"}), (False, set[str]())])
def test_the_only_consumer_gets_what_it_held_behind_what_was_behind_it(story, resumed, rules):
    """Its connection has found another broker; or it has connected anew, and its old connection may hold them still."""
    second = only_consumer_come_back(story, resumed)
    for number, count in ((3, 0), (4, 0), (1, 1), (2, 1), (5, 0)):
        story.consume(second, number, count)
    assert story.rules() == rules


def test_the_only_consumer_gets_what_it_held_first(story):
    second = only_consumer_come_back(story, resumed=True)
    for number, count in ((1, 1), (2, 1), (3, 0), (4, 0), (5, 0)):
        story.consume(second, number, count)
    verdict = history.check(story.end())
    assert verdict.violations == [] and verdict.counts["only consumer checks"] == 4


@pytest.mark.parametrize(("unsure", "rules"), [(True, set[str]()), (False, {"order"})])
def test_what_the_only_consumer_gets_while_its_broker_is_lost(story, unsure, rules):
    """Its broker is lost once more while it fetches."""
    second = only_consumer_come_back(story, resumed=True)
    for number in (1, 2):
        story.consume(second, number, 1)
    held = [story.take(second, number) for number in (3, 4)]
    story.consume(second, 3, 1, unsure=unsure)
    for id in held:
        story.settle(second, id, "lost")
    story.close(second, broken=True)
    third = story.open("r1", alone=True, resumed=True)
    for number, count in ((4, 1), (5, 0)):
        story.consume(third, number, count)
    assert story.rules() == rules


def test_out_of_order_in_the_queue(story):
    """Two consumers get one each, so neither sees anything wrong."""
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s, 2)
    story.consume(r1, 2, position=1)
    story.consume(r2, 1, position=2)
    assert story.rules() == {"order"}


def test_a_producers_completed_transfer_behind_anothers_later_one(story):
    s1, s2, r = story.open("s1"), story.open("s2"), story.open("r1")
    story.send(s1)
    story.send(s2)
    story.consume(r, 1, producer="s2", position=1)
    story.consume(r, 1, producer="s1", position=2)
    assert story.rules() == {"real time"}


def test_never_sent_refused_too_early_damaged_elsewhere(story):
    s, r = story.open("s1"), story.open("r1")
    story.consume(r, 1, position=1)  # before it is sent
    story.send(s)
    story.send(s, 1, "failed")
    story.consume(r, 2)
    story.consume(r, 99, position=99)
    story.send(s, 2)
    story.consume(r, 3, damaged=True)
    story.consume(r, 4, of="other")
    verdict = history.check(story.end())
    assert sorted(violation.rule for violation in verdict.violations) == ["damaged", "misrouted", *["phantom"] * 3]


def test_not_drained(story):
    story.drain = False
    story.send(story.open("s1"), 1, "unknown")
    assert story.rules() == {"undrained"}


def test_drained_too_early(story):
    s = story.open("s1")
    story.line("drained", "early", queue="q")
    story.drain = False
    story.send(s, 1, "unknown")
    assert story.rules() == {"undrained"}


def test_a_log_without_its_end(story):
    story.finish = False
    story.open("r1")
    assert story.rules() == {"unfinished"}


def test_nothing_done_proves_nothing(story):
    assert story.rules(minimum={"loss checks": 1}) == {"vacuous"}


@pytest.mark.parametrize(
    ("outcome", "kind"), [("unknown", "accept"), ("lost", "accept"), ("lost", "release"), ("unknown", "release")]
)
def test_without_faults_nothing_may_be_in_doubt(story, outcome, kind):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.settle(r, story.take(r, 1), outcome, kind)
    story.consume(r, 1, 1)
    assert "uncalled for" in story.rules(strict=True)


def test_without_faults_no_redelivery_unasked(story):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r, 1, 1)
    assert story.rules(strict=True) == {"uncalled for"}


def test_without_faults_no_transfer_in_doubt(story):
    story.send(story.open("s1"), 1, "unknown")
    assert story.rules(strict=True) == {"uncalled for"}


# ---- logs that no honest client writes


@pytest.mark.parametrize(
    "line",
    [
        {"op": "send", "client": "s1", "link": "s1/1", "first": 7, "last": 7, "outcome": "sent"},
        {"op": "send", "client": "s1", "link": "s1/1", "first": 7, "last": 7, "outcome": "completed"},
        {"op": "send", "client": "s1", "link": "s1/1", "first": 1, "last": 1, "outcome": "unknown"},
        {"op": "send", "client": "s1", "link": "s1/9", "first": 1, "last": 1, "outcome": "sent"},
        {"op": "send", "client": "s1", "link": "s1/1", "first": 2, "last": 2, "outcome": "perhaps"},
        {"op": "settle", "client": "r1", "link": "r1/1", "ids": [9], "kind": "accept", "outcome": "sent"},
        {"op": "settle", "client": "r1", "link": "r1/1", "ids": [1], "kind": "accept", "outcome": "completed"},
        {"op": "settle", "client": "r1", "link": "r1/1", "ids": [1], "kind": "release", "outcome": "sent"},
        {"op": "open", "client": "s1", "link": "s1/1", "queue": "q", "role": "sender"},
        {"op": "sing", "client": "s1"},
        {"op": "done"},
    ],
)
def test_a_broken_log_is_told(story, line):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.consume(r, 1)
    story.t += 1
    story.lines.append({"t": story.t, **line})
    assert "log" in story.rules()


def test_time_runs_forwards(story):
    s = story.open("s1")
    story.t -= 1.5
    story.send(s, 1, "unknown")
    assert "log" in story.rules()


def test_nothing_follows_the_last_line(story):
    story.open("r1")
    story.line("done", "r1")
    story.open("r1")
    story.finish = False
    assert "log" in story.rules()


# ---- planting


def honest(story: Story) -> list[dict[str, Any]]:
    """A history in which everything happens once."""
    senders = [story.open("s1"), story.open("s2")]
    receivers = [story.open("r1"), story.open("r2")]
    for _ in range(3):
        for index in (0, 1):
            for number in story.send(senders[index], 3):
                link = receivers[number % 2]
                id = story.take(link, number, producer=f"s{index + 1}")
                if number == 3:
                    story.settle(link, id, kind="release")
                    story.consume(link, number, 1, producer=f"s{index + 1}")
                else:
                    story.settle(link, id)
    browsed(story)
    story.end()
    return story.lines


def browsed(story: Story) -> None:
    """A queue is looked at, and then drained."""
    numbers = story.send(story.open("s1", "kept"), 3, queue="kept")
    story.browse("kept", [(story.places["kept", "s1", number], "s1", number) for number in numbers])
    drain = story.open("drain", "kept")
    for number in numbers:
        story.settle(drain, story.take(drain, number, queue="kept"))


def test_a_browser_may_miss_what_is_not_complete_or_was_taken(story):
    sender, receiver = story.open("s1"), story.open("r1")
    numbers = story.send(sender, 2)
    for number in numbers:
        story.consume(receiver, number)
    unknown = story.send(sender, 1, "unknown")
    story.browse("q", [(story.places["q", "s1", number], "s1", number) for number in unknown])
    story.consume(receiver, *unknown)
    story.browse("q", [])
    assert story.rules() == set()


@pytest.mark.parametrize("seen", [[1, 3], [1, 2, 2, 3], [2, 1, 3], [1, 2, 3, 4]])
def test_a_browser_sees_what_is_there_once_and_in_order(story, seen):
    numbers = story.send(story.open("s1", "kept"), 3, queue="kept")
    story.browse("kept", [(story.places.get(("kept", "s1", number), 9), "s1", number) for number in seen])
    drain = story.open("drain", "kept")
    for number in numbers:
        story.consume(drain, number, queue="kept")
    assert story.rules() & {"browse", "phantom"}


def test_more_than_the_window(story):
    sender, receiver = story.open("s1"), story.open("r1")
    (number,) = story.send(sender)
    story.settle(receiver, story.take(receiver, number, over=True))
    assert story.rules() == {"window"}


def test_the_honest_history_passes(story):
    found = History()
    take(found, honest(story))
    assert history.check(found, strict=True).violations == []


@pytest.mark.parametrize("name", [name for name, plant in plants.PLANTS.items() if not plant.kind])
def test_every_plant_is_found(story, name):
    plant = plants.PLANTS[name]
    found = History()
    take(found, plant.sow(json.loads(json.dumps(honest(story)))))
    assert plant.rule in history.check(found).rules


def test_a_run_whose_plants_escape_is_told(story):
    lines = honest(story)
    assert plants.escaped(lines) == []
    assert plants.escaped([line for line in lines if line["op"] in ("open", "done", "drained")]) == [
        name for name, plant in plants.PLANTS.items() if not plant.kind
    ]
