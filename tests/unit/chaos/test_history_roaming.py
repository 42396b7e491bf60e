"""The rules of messages that go on from queue to queue: what each finds, and what it leaves alone."""

from __future__ import annotations

import pytest
from chaos_roaming import AWAY, DEAD, DYING, MOVED, dying, goes_by, moved, roam
from chaos_story import Story
from mantamq.client import Message

from tests.chaos import body, history, kinds


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.mark.parametrize("tell", [dying, moved])
def test_an_honest_history(story, tell):
    tell(story)
    assert story.rules(strict=True) == set()


@pytest.mark.parametrize("outcome", ["completed", "unknown", "lost"])
def test_what_was_accepted_is_redriven_as_well(story, outcome):
    s, r = story.open("s1", DYING), story.open("r1", DYING)
    story.open("drain", DYING + DEAD)
    story.send(s, 1, queue=DYING)
    story.settle(r, story.take(r, 1, queue=DYING), outcome)
    story.consume(r, 1, queue=DYING, position=9)
    assert story.rules() == ({"accepted again"} if outcome == "completed" else set())


@pytest.mark.parametrize("kind", ["release", "reject", "modify"])
def test_what_never_comes_again(story, kind):
    s, r = story.open("s1", DYING), story.open("r1", DYING)
    story.open("drain", DYING + DEAD)
    story.send(s, 1, queue=DYING)
    goes_by(story, r, 1, kind)
    assert story.rules() == {"vanished"}


@pytest.mark.parametrize("outcome", ["completed", "unknown"])
def test_what_never_comes(story, outcome):
    s, _ = story.open("s1", MOVED), story.open("r1", MOVED)
    story.open("drain", MOVED + DEAD)
    story.open("r2", MOVED + AWAY)
    story.send(s, 1, outcome, queue=MOVED)
    assert story.rules() == ({"lost"} if outcome == "completed" else set())


@pytest.mark.parametrize(
    ("number", "died", "fits"),
    [
        (1, ["rejected", 0, DYING], False),
        (1, ["expired", 0, DYING], False),
        (1, ["maxlen", 0, DYING], False),
        (4, ["expired", 0, DYING], True),
        (4, ["expired", 0, "other"], False),
        (1, ["delivery_limit", 3, DYING], True),
        (1, ["delivery_limit", 2, DYING], False),
    ],
)
def test_why_a_dead_letter_may_have_died(story, number, died, fits):
    """Nobody has had it, as far as is known: who died may have, and have given it back so often."""
    s, _ = story.open("s1", DYING), story.open("r1", DYING)
    story.send(s, number, "unknown", queue=DYING)
    d = story.open("drain", DYING + DEAD)
    story.consume(d, number, queue=DYING, position=1, of=DYING, died=died)
    assert story.rules() == (set() if fits else {"cause"})


@pytest.mark.parametrize(("asked", "found"), [("completed", False), ("unknown", False), ("lost", True)])
def test_a_dead_letter_that_may_have_been_rejected(story, asked, found):
    s, r = story.open("s1", DYING), story.open("r1", DYING)
    story.send(s, 1, queue=DYING)
    story.settle(r, story.take(r, 1, queue=DYING), asked, "reject")
    d = story.open("drain", DYING + DEAD)
    story.consume(d, 1, queue=DYING, position=1, of=DYING, died=["rejected", 0, DYING])
    assert ("cause" in story.rules()) == found


@pytest.mark.parametrize(("count", "found"), [(2, False), (3, True)])
def test_a_message_comes_back_so_often_at_most(story, count, found):
    s, r = story.open("s1", DYING), story.open("r1", DYING)
    story.open("drain", DYING + DEAD)
    story.send(s, 1, queue=DYING)
    story.consume(r, 1, count, queue=DYING)
    assert story.rules() == ({"attempts"} if found else set())


@pytest.mark.parametrize(
    ("idle", "died", "found"), [(0, None, False), (9, None, True), (9, ["expired", 0, DYING], False)]
)
def test_nobody_gets_what_has_expired_long_since(story, idle, died, found):
    s, r = story.open("s1", DYING), story.open("r1", DYING)
    story.open("drain", DYING + DEAD)
    story.send(s, 3, "failed", queue=DYING)
    story.send(s, 1, queue=DYING)
    story.t += idle
    story.consume(r, 4, queue=DYING, **({"died": died} if died else {}))
    assert ("expired" in story.rules(strict=True)) == found


@pytest.mark.parametrize("where", [MOVED, MOVED + AWAY, MOVED + DEAD])
def test_each_of_its_queues_is_drained(story, where):
    moved(story)
    found = story.end()
    del found.drained[where]
    assert history.check(found).rules == {"undrained"}


def test_of_a_stay_the_usual_rules_hold(story):
    s, r = story.open("s1", MOVED), story.open("r1", MOVED)
    story.open("drain", MOVED + DEAD)
    away = story.open("r2", MOVED + AWAY)
    story.send(s, 3, queue=MOVED)
    story.take(r, 1, 2, queue=MOVED)
    story.consume(r, 1, 1, queue=MOVED)
    story.take(away, 2, queue=MOVED, of=MOVED, position=7)
    story.consume(away, 2, queue=MOVED, of=MOVED, position=7)
    story.consume(away, 3, queue=MOVED, of=MOVED, position=7)
    assert story.rules() == {"accepted again", "count", "not flagged", "place"}


def test_what_is_left_behind_and_what_nobody_sent(story):
    moved(story)
    roam(story, MOVED, MOVED + AWAY, 1, 1)
    r = story.open("r3", MOVED + AWAY)
    story.consume(r, 99, queue=MOVED, position=500, of=MOVED)
    story.consume(r, 3, queue=MOVED, position=501, of="x-other", damaged=True)
    assert story.rules() == {"left", "phantom", "damaged", "accepted again"}


def test_what_has_been_moved_carries_what_it_carried():
    number = next(
        n for n in range(1, 30) if kinds.KINDS["dying"].lives(n) and not body.options(n, "q").get("properties")
    )
    options = body.options(number, DYING)
    died = {
        f"manta.death_{name}": value
        for name, value in zip(("cause", "deliveries", "queue"), ("expired", 0, DYING), strict=True)
    }
    for queue in (DYING, DYING + DEAD):
        for ttl in (options["ttl"], None, 0.1):
            message = Message(b"", **options | {"ttl": ttl, "properties": died})
            assert body.as_sent(message, number, queue) and body.died(message) == ["expired", 0, DYING]
    assert not body.as_sent(Message(b"", **options | {"ttl": 1.0}), number, DYING)
    assert not body.as_sent(Message(b"", **options | {"properties": {"other": 1}}), number, DYING)
    assert body.died(Message(b"")) == []
