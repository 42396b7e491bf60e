"""The rules of what is for later: what each finds, and what it leaves alone. Each line of a story is a second."""

from __future__ import annotations

import pytest
from chaos_later import QUEUE, later
from chaos_story import Story

from tests.chaos import kinds

KIND = kinds.KINDS["later"]
LATE = next(number for number in range(1, 20) if KIND.delay(number) == 3.0)


@pytest.fixture
def story() -> Story:
    return Story()


def test_an_honest_history(story):
    later(story)
    assert story.rules(strict=True) == set()


@pytest.mark.parametrize(("idle", "found"), [(0, True), (3, False)])
def test_what_is_for_later_comes_not_before(story, idle, found):
    s, r = story.open("s1", QUEUE), story.open("r1", QUEUE)
    story.send(s, LATE, "unknown", queue=QUEUE)
    story.t += idle
    story.consume(r, LATE, queue=QUEUE)
    assert ("early" in story.rules()) == found


@pytest.mark.parametrize("outcome", ["completed", "unknown", "lost"])
@pytest.mark.parametrize(("delay", "count", "early"), [(5.0, 1, True), (1.0, 1, False), (5.0, 0, False)])
def test_what_is_released_for_later(story, outcome, delay, count, early):
    s, r, r2 = story.open("s1", QUEUE), story.open("r1", QUEUE), story.open("r2", QUEUE)
    story.send(s, 1, queue=QUEUE)
    id = story.take(r, 1, queue=QUEUE)
    story.line("settle", "r1", link=r, ids=[id], kind="release", outcome="sent", delay=delay)
    story.answer(r, id, outcome, "release")
    story.consume(r2, 1, count, queue=QUEUE)
    assert ("early" in story.rules()) == (early and outcome == "completed")


@pytest.mark.parametrize(("uncounted", "found"), [(False, True), (True, False)])
def test_another_try(story, uncounted, found):
    s, r, r2 = story.open("s1", QUEUE), story.open("r1", QUEUE), story.open("r2", QUEUE)
    story.send(s, 1, queue=QUEUE)
    id = story.take(r, 1, queue=QUEUE)
    story.line("settle", "r1", link=r, ids=[id], kind="modify", outcome="sent", uncounted=uncounted)
    story.answer(r, id, kind="modify")
    story.t -= 1.9
    story.consume(r2, 1, 1, queue=QUEUE, since=0.0)
    assert ("early" in story.rules()) == found


def test_delays_and_tries_follow_from_numbers():
    assert {KIND.delay(number) for number in range(1, 50)} == set(kinds.DELAYS_S)
    assert [KIND.retry(count) for count in (0, 1, 5)] == [*kinds.RETRIES_S, kinds.RETRIES_S[-1]]
    assert kinds.KINDS["groups"].delay(4) == kinds.KINDS["groups"].retry(1) == 0
