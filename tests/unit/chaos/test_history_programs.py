"""The rules of programs that are killed and begin anew: what each finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from chaos_programs import begun, consumes, programs, sends
from chaos_story import Story

from tests.chaos import history

KINDS = "x-named", "x-once"


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.mark.parametrize("queue", KINDS)
def test_what_is_sent_again_by_another_life_comes_once(story, queue):
    programs(story, queue)
    assert story.rules(strict=True) == set()


@pytest.mark.parametrize("queue", KINDS)
def test_who_was_killed_has_no_last_line(story, queue):
    programs(story, queue)
    found = story.end()
    found.finished.discard("s7")
    assert history.check(found, strict=True).rules == set()


@pytest.mark.parametrize("queue", KINDS)
def test_what_comes_in_twice(story, queue):
    r, s = story.open("r1", queue), begun(story, "s7", queue, "p")
    sends(story, s, 1, 3)
    sends(story, begun(story, "s8", queue, "p"), 3, 4)
    consumes(story, r, queue, "p", 1, 3)
    consumes(story, r, queue, "p", 3, 4, behind=1)
    assert story.rules() == {"duplicate", "accepted again", "not flagged"}


@pytest.mark.parametrize("queue", KINDS)
@pytest.mark.parametrize("complete", [True, False])
def test_what_any_life_knows_to_be_complete_is_not_lost(story, queue, complete):
    r = story.open("r1", queue)
    sends(story, begun(story, "s7", queue, "p"), 1, 3, "sent")
    sends(story, begun(story, "s8", queue, "p"), 2, 3, "completed" if complete else "unknown")
    consumes(story, r, queue, "p", 1, 2)
    assert story.rules() == ({"lost"} if complete else set())


@pytest.mark.parametrize(
    ("had", "rules"), [(2, {"name"}), (3, set()), (5, set()), (6, {"lost"}), (8, {"name", "lost"})]
)
def test_what_a_queue_says_of_a_name(story, had, rules):
    """1 to 3 were complete, 7 was the last that was sent; 5 was the last that came."""
    r = story.open("r1", "x-named")
    s = begun(story, "s7", "x-named", "p", 0)
    sends(story, s, 1, 3)
    sends(story, s, 4, 7, "sent")
    begun(story, "s8", "x-named", "p", had)
    consumes(story, r, "x-named", "p", 1, 5)
    assert story.rules() == rules


@pytest.mark.parametrize("queue", KINDS)
def test_by_a_name_all_is_in_order_by_ids_who_comes_first_is(story, queue):
    r = story.open("r1", queue)
    sends(story, begun(story, "s7", queue, "p"), 1, 3, "sent")
    sends(story, begun(story, "s8", queue, "p"), 2, 3)
    for at, number in enumerate((2, 1, 3), start=1):
        story.consume(r, number, producer="p", queue=queue, position=at)
    assert story.rules() == ({"order"} if queue == "x-named" else set())
