"""The rules of queues of kinds: what each finds, and what it leaves alone. Limits are small here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from chaos_later import later
from chaos_programs import programs
from chaos_roaming import dying, moved
from chaos_story import Story

from tests.chaos import body, history, history_kinds, kinds, planting, plants
from tests.chaos.journal import History, take

RING, LIMIT = 4, 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in (
        ("ring", {"most": RING}), ("limit", {"most": LIMIT, "stop": 6, "resume": 4}),
        ("groups", {"values": 2}), ("levels", {"values": 3}), ("last", {"values": 2}), ("fair", {"values": 2}),
    ):  # fmt: skip
        monkeypatch.setitem(kinds.KINDS, name, replace(kinds.KINDS[name], **values))


@pytest.fixture
def story() -> Story:
    return Story()


def numbers_of(kind: str, key: str, count: int = 4) -> list[int]:
    """The first numbers that have this key."""
    return [number for number in range(1, 200) if kinds.KINDS[kind].key(number) == key][:count]


def look(story: Story, queue: str, messages: int, stopped: bool = False, stops: int = 0) -> None:
    began = story.t + 0.2
    story.line("look", "o1", queue=queue, began=began, messages=messages, stopped=stopped, stops=stops)


def history_of(story: Story) -> History:
    """As far as it has been told."""
    found = History()
    take(found, story.lines)
    return found


def tally(story: Story, queue: str, **counts: int) -> None:
    names = ("messages", "enqueued", "accepted", "dead_lettered", "discarded", "expired")
    story.line("tally", "drain", queue=queue, counts=dict.fromkeys(names, 0) | counts)


def give_back(story: Story, link: str, id: int, uncounted: bool = False, elsewhere: bool = False) -> str:
    """Modify, completed; returns the note."""
    client = link.split("/")[0]
    for outcome in ("sent", "completed"):
        more = {"uncounted": uncounted, "elsewhere": elsewhere} if outcome == "sent" else {}
        story.line("settle", client, link=link, ids=[id], kind="modify", outcome=outcome, **more)
    return f"{client}.{id}"


# ---- the kinds


def test_every_kind_has_a_name_that_a_queue_ends_in_and_no_plain_queue_does():
    for name in kinds.KINDS:
        assert kinds.of(f"chaos-12-{name}") is kinds.KINDS[name]
        assert kinds.of(f"chaos-12-{name}.dead") is None
    assert all(kinds.of(queue) is None for queue in ("q", "kept", "chaos-1-0", "chaos-1-alone", "chaos-1-kept"))


def test_every_kind_says_what_must_be_checked_at_least():
    assert set(history_kinds.LEAST) == set(kinds.KINDS)


@pytest.mark.parametrize("name", ["groups", "last", "fair", "selected"])
def test_all_keys_come_and_follow_from_the_number(name):
    kind = kinds.KINDS[name]
    assert {kind.key(number) for number in range(1, 200)} == {f"k{level}" for level in range(kind.values)}
    carried = body.options(3, f"x-{name}")
    assert carried["properties"] == {"key": kind.key(3)}
    assert body.options(3, f"x-{name}.dead") == carried


@pytest.mark.parametrize(("levels", "priorities"), [(3, [3, 4, 5]), (10, list(range(10)))])
def test_levels_are_priorities_that_are_told_apart(monkeypatch, levels, priorities):
    monkeypatch.setitem(kinds.KINDS, "levels", replace(kinds.KINDS["levels"], values=levels))
    found = {kinds.KINDS["levels"].level(n): body.options(n, "x-levels")["priority"] for n in range(1, 200)}
    assert found == dict(enumerate(priorities))


# ---- one holder


@pytest.mark.parametrize(
    ("kind", "same"), [("groups", True), ("groups", False), ("single", True), ("exclusive", True), ("fair", True)]
)
def test_two_hold_what_is_one_receivers(story, kind, same):
    queue = f"x-{kind}"
    s, r1, r2 = story.open("s1", queue), story.open("r1", queue), story.open("r2", queue)
    story.send(s, 60, queue=queue)
    first = numbers_of("groups", "k0")
    second = first[1] if same else numbers_of("groups", "k1")[0]
    one, two = story.take(r1, first[0], queue=queue), story.take(r2, second, queue=queue, since=0.0)
    story.settle(r1, one)
    story.settle(r2, two)
    assert ("held by two" in story.rules()) == (same and kind != "fair")


@pytest.mark.parametrize("how", [("release", "completed"), ("accept", "lost"), ("accept", "unknown")])
def test_what_is_not_surely_held_may_be_anothers(story, how):
    kind, outcome = how
    s, r1, r2 = story.open("s1", "x-single"), story.open("r1", "x-single"), story.open("r2", "x-single")
    story.send(s, 2, queue="x-single")
    one = story.take(r1, 1, queue="x-single")
    story.settle(r2, story.take(r2, 2, queue="x-single", since=0.0))
    story.settle(r1, one, outcome, kind)
    assert "held by two" not in story.rules()


def test_one_after_the_other(story):
    s, r1, r2 = story.open("s1", "x-single"), story.open("r1", "x-single"), story.open("r2", "x-single")
    story.send(s, 2, queue="x-single")
    story.consume(r1, 1, queue="x-single")
    story.consume(r2, 2, queue="x-single")
    verdict = history.check(story.end())
    assert verdict.violations == [] and verdict.counts["holding checks of single"] == 1


# ---- order


@pytest.mark.parametrize(("later", "found"), [(1, True), (3, False)])
def test_a_group_goes_in_order_whoever_gets_it(story, later, found):
    """The second of a group goes before the first; or one of another group does."""
    s, r1, r2 = story.open("s1", "x-groups"), story.open("r1", "x-groups"), story.open("r2", "x-groups")
    story.send(s, 60, queue="x-groups")
    of_one, of_other = numbers_of("groups", "k0"), numbers_of("groups", "k1")
    story.consume(r1, of_one[1] if later == 1 else of_other[0], queue="x-groups")
    story.consume(r2, of_one[0], queue="x-groups")
    assert ("order" in story.rules()) == found


def test_on_one_link_a_key_is_in_order_and_keys_are_not(story):
    s, r = story.open("s1", "x-levels"), story.open("r1", "x-levels")
    story.send(s, 60, queue="x-levels")
    low, high = numbers_of("levels", "k0"), numbers_of("levels", "k2")
    for number in (*high, *low):
        story.consume(r, number, queue="x-levels")
    assert "order" not in story.rules()
    story = Story()
    s, r = story.open("s1", "x-levels"), story.open("r1", "x-levels")
    story.send(s, 60, queue="x-levels")
    story.consume(r, low[1], queue="x-levels")
    story.consume(r, low[0], queue="x-levels")
    assert "order" in story.rules()


def test_what_somebody_had_before_comes_in_any_order(story):
    s, r = story.open("s1", "x-single"), story.open("r1", "x-single")
    story.send(s, 2, queue="x-single")
    note = give_back(story, r, story.take(r, 1, queue="x-single"), uncounted=True)
    story.consume(r, 2, queue="x-single")
    story.consume(r, 1, queue="x-single", again=True, notes=[note])
    assert story.rules() == set()


# ---- limits


def filled(story: Story, queue: str, count: int) -> str:
    s, r = story.open("s1", queue), story.open("r1", queue)
    numbers = story.send(s, count, queue=queue)
    held = [story.take(r, number, queue=queue) for number in numbers]
    for id in held:
        story.settle(r, id)
    return s


@pytest.mark.parametrize("queue", ["x-limit", "x-ring"])
@pytest.mark.parametrize("more", [0, 1])
def test_more_than_the_limit(story, queue, more):
    most = LIMIT if queue == "x-limit" else RING
    filled(story, queue, most + more)
    assert ("limit" in story.rules()) == bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_a_queue_says_that_it_has_more_than_its_limit(story, more):
    look(story, "x-ring", RING + more)
    filled(story, "x-ring", 1)
    assert ("limit" in story.rules()) == bool(more)


def test_refused_when_it_may_be_full_and_when_it_cannot(story):
    s = story.open("s1", "x-limit")
    story.send(s, LIMIT, "unknown", queue="x-limit")
    story.send(s, 1, "refused", queue="x-limit")
    verdict = history.check(story.end())
    assert verdict.violations == [] and verdict.counts["refusal checks"] == 1
    story = Story()
    filled(story, "x-limit", LIMIT)
    story.send(story.open("s2", "x-limit"), 1, "refused", queue="x-limit")
    assert story.rules() == {"limit"}


def test_refused_by_a_queue_without_a_limit_and_delivered_though_refused(story):
    story.send(story.open("s1"), 1, "refused")
    assert story.rules() == {"uncalled for"}
    story = Story()
    s, r = story.open("s1", "x-limit"), story.open("r1", "x-limit")
    story.send(s, LIMIT, "unknown", queue="x-limit")
    (number,) = story.send(s, 1, "refused", queue="x-limit")
    story.consume(r, number, queue="x-limit")
    assert "phantom" in story.rules()


def test_held_back_as_promised(story):
    story.open("s1", "x-limit", capacity=1)
    look(story, "x-limit", 6)
    look(story, "x-limit", 7, True, 1)
    look(story, "x-limit", 4, True, 1)
    look(story, "x-limit", 3, False, 1)
    story.line("close", "s1", link="s1/1", broken=False)
    link = story.open("s1", "x-limit", capacity=1)
    story.send(link, 1, "unknown", queue="x-limit")
    verdict = history.check(story.end())
    assert verdict.violations == []
    assert verdict.counts["times producers were held back"] == 1 and verdict.counts["overshoot checks"] == 2


@pytest.mark.parametrize(
    "look_at",
    [(7, False, 0), (3, True, 1), (8, True, 1)],
    ids=["not held back", "not let go", "more than the capacity"],
)
def test_held_back_otherwise(story, look_at):
    story.send(story.open("s1", "x-limit", capacity=1), 1, "unknown", queue="x-limit")
    look(story, "x-limit", *look_at)
    assert story.rules() == {"flow"}


@pytest.mark.parametrize(("stops", "found"), [(1, True), (2, False)])
def test_what_is_sent_while_producers_are_held_back_does_not_complete(story, stops, found):
    s, r = story.open("s1", "x-limit", capacity=5), story.open("r1", "x-limit")
    look(story, "x-limit", 7, True, 1)
    (number,) = story.send(s, 1, queue="x-limit")
    look(story, "x-limit", 7, True, stops)
    story.consume(r, number, queue="x-limit")
    assert ("flow" in story.rules()) == found


# ---- what goes


def test_from_a_ring_the_oldest_go(story):
    s = story.open("s1", "x-ring")
    story.send(s, 3 * RING, queue="x-ring")
    d = story.open("drain", "x-ring")
    for number in range(2 * RING + 1, 3 * RING + 1):
        story.consume(d, number, queue="x-ring")
    verdict = history.check(story.end())
    assert verdict.violations == [] and verdict.counts["ring: gone"] == 2 * RING


@pytest.mark.parametrize(
    ("left", "rules"),
    [([9, 10, 11], {"lost", "ring"}), ([8, 10, 11, 12], {"ring"}), ([8, 9, 10, 11, 12], {"limit"})],
    ids=["the newest is lost", "a newer one goes", "one too many stays"],
)
def test_from_a_ring_other_than_the_oldest_go(story, left, rules):
    story.send(story.open("s1", "x-ring"), 3 * RING, queue="x-ring")
    d = story.open("drain", "x-ring")
    for number in left:
        story.settle(d, story.take(d, number, queue="x-ring"))
    found = story.rules()
    assert rules & found and found <= {"lost", "ring", "limit"}


def test_what_was_held_and_has_gone_from_a_ring_is_lost_without_faults(story):
    s, r = story.open("s1", "x-ring"), story.open("r1", "x-ring")
    story.send(s, 1, queue="x-ring")
    held = story.take(r, 1, queue="x-ring")
    story.send(s, RING, queue="x-ring")
    story.settle(r, held, "lost")
    for number in range(2, RING + 2):
        story.consume(r, number, queue="x-ring")
    assert story.rules(strict=True) == set()


def test_what_cannot_have_gone_is_lost_without_faults(story):
    s, r = story.open("s1", "x-ring"), story.open("r1", "x-ring")
    story.send(s, 1, queue="x-ring")
    story.settle(r, story.take(r, 1, queue="x-ring"), "lost")
    assert story.rules(strict=True) == {"uncalled for", "lost"}


def last_of_keys(numbers: Iterable[int], which: int = -1) -> list[int]:
    """Of each key the last of these, or the one before."""
    kind, numbers = kinds.KINDS["last"], list(numbers)
    return [[number for number in numbers if kind.key(number) == key][which] for key in ("k0", "k1")]


@pytest.mark.parametrize(
    ("left", "rules"),
    [(-1, set[str]()), (-2, {"lost", "last value"})],
    ids=["the newest", "the one before"],
)
def test_of_a_key_the_newest_stays(story, left, rules):
    s = story.open("s1", "x-last")
    story.send(s, 20, queue="x-last")
    d = story.open("drain", "x-last")
    for number in sorted(last_of_keys(range(1, 21), left)):
        story.consume(d, number, queue="x-last")
    assert story.rules() == rules


def test_two_of_a_key_stay(story):
    one, other = numbers_of("last", "k0")[:2]
    s1, s2 = story.open("s1", "x-last"), story.open("s2", "x-last")
    story.sent(s1, other, queue="x-last")
    story.send(s2, one, queue="x-last")
    story.known(s1, range(1, other + 1))
    d = story.open("drain", "x-last")
    story.consume(d, other, queue="x-last")
    story.consume(d, one, producer="s2", queue="x-last")
    assert "last value" in story.rules()


# ---- what is left


@pytest.mark.parametrize("high_first", [True, False])
def test_what_is_left_goes_by_level(story, high_first):
    story.send(story.open("s1", "x-levels"), 60, queue="x-levels")
    d = story.open("drain", "x-levels")
    low, high = numbers_of("levels", "k0")[0], numbers_of("levels", "k2")[0]
    for number in (high, low) if high_first else (low, high):
        story.consume(d, number, queue="x-levels")
    assert ("level" in story.rules()) != high_first


@pytest.mark.parametrize("more", [0, 1])
def test_no_level_has_more_than_its_share_at_once(story, more):
    kind = kinds.KINDS["shares"]
    story.send(story.open("s1", "x-shares"), 60, queue="x-shares")
    d = story.open("drain", "x-shares")
    low, high = numbers_of("shares", "k0", 1), numbers_of("shares", "k2", kind.share + 1)
    for number in [*high[: kind.share + more], *low, *high[kind.share + more :]]:
        story.consume(d, number, queue="x-shares")
    assert ("turn" in story.rules()) == bool(more)


def test_a_browser_sees_what_its_selector_lets_through(story):
    story.send(story.open("s1", "x-selected"), 60, "unknown", queue="x-selected")
    for wants, found in ((["k0"], False), (["k1"], True)):
        number = numbers_of("selected", "k0")[0]
        story.browse("x-selected", [(story.places["x-selected", "s1", number], "s1", number)])
        story.lines[-3]["wants"] = wants
        assert ("selector" in history.check(history_of(story)).rules) == found


@pytest.mark.parametrize("turns", [True, False])
def test_values_take_turns(story, turns):
    story.send(story.open("s1", "x-fair"), 60, queue="x-fair")
    d = story.open("drain", "x-fair")
    one, other = numbers_of("fair", "k0"), numbers_of("fair", "k1")
    order = [*one[:2], *other[:2]] if not turns else [one[0], other[0], one[1], other[1]]
    for number in order:
        story.consume(d, number, queue="x-fair")
    assert ("turn" in story.rules()) != turns


@pytest.mark.parametrize(
    ("stamps", "found"), [((4, 4, 7), False), ((4, 5, 7), True), ((4, 4, 4), True), ((0, 0, 7), True)]
)
def test_numbers_in_the_queue(story, stamps, found):
    """The first message comes twice, and then the second."""
    s, r = story.open("s1", "x-stamped"), story.open("r1", "x-stamped")
    story.send(s, 2, queue="x-stamped")
    story.settle(r, story.take(r, 1, queue="x-stamped", stamp=stamps[0]), kind="release")
    story.consume(r, 1, 1, queue="x-stamped", stamp=stamps[1])
    story.consume(r, 2, queue="x-stamped", stamp=stamps[2])
    assert ("stamp" in story.rules()) == found


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"enqueued": 4, "accepted": 2, "discarded": 2, "refused": 2}, False),
        ({"enqueued": 6, "accepted": 3, "discarded": 3, "refused": 3}, False),
        ({"enqueued": 7, "accepted": 4, "discarded": 3, "refused": 3}, True),
        ({"enqueued": 4, "accepted": 2, "discarded": 2, "refused": 1, "discarded_ring": 1}, True),
        ({"enqueued": 4, "accepted": 2, "discarded": 2, "refused": 1}, True),
        ({"enqueued": 4, "accepted": 1, "discarded": 2, "refused": 2, "messages": 1}, True),
    ],
)
def test_what_is_counted_is_what_is_known_or_may_be(story, counts, found):
    """Two are complete and accepted, two refused; of another one nobody knows whether it came, nor whether its accept did."""
    s, r = story.open("s1", "x-limit"), story.open("r1", "x-limit")
    for outcome in ("completed", "completed", "unknown", "unknown"):
        story.send(s, 1, outcome, queue="x-limit")
    story.send(s, 2, "refused", queue="x-limit")
    for number, outcome in ((1, "completed"), (2, "completed"), (3, "unknown")):
        story.settle(r, story.take(r, number, queue="x-limit"), outcome)
    tally(story, "x-limit", **counts)
    assert ("tally" in story.rules()) == found


# ---- what receivers say


@pytest.mark.parametrize(("wants", "found"), [(["k0"], False), (["k1", "k2"], True)])
def test_a_selector(story, wants, found):
    s, r = story.open("s1", "x-selected"), story.open("r1", "x-selected", wants=wants)
    story.send(s, 60, "unknown", queue="x-selected")
    story.consume(r, numbers_of("selected", "k0")[0], queue="x-selected")
    assert ("selector" in story.rules()) == found


@pytest.mark.parametrize("started", [True, False])
def test_a_stopped_receiver(story, started):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    story.line("stop", "r1", link=r)
    if started:
        story.line("start", "r1", link=r)
    story.consume(r, 1)
    assert story.rules() == (set() if started else {"stopped"})


@pytest.mark.parametrize(
    ("uncounted", "again", "rules"),
    [
        (False, {"count": 1}, set()),
        (True, {"again": True}, set()),
        (True, {"count": 1}, set()),
        (True, {}, {"not flagged"}),
        (False, {"again": True}, {"count", "not flagged"}),
    ],
)
def test_what_is_given_back_counts_or_not(story, uncounted, again, rules):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    note = give_back(story, r, story.take(r, 1), uncounted)
    story.consume(r, 1, notes=[note], **again)
    assert story.rules() == rules


@pytest.mark.parametrize("notes", [[], ["r1.1", "r9.9"]])
def test_notes_stay_and_are_not_made_up(story, notes):
    s, r = story.open("s1"), story.open("r1")
    story.send(s)
    give_back(story, r, story.take(r, 1))
    story.consume(r, 1, 1, notes=notes)
    assert story.rules() == {"note"}


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_given_again_to_who_did_not_want_it(story, where):
    s, r1, r2 = story.open("s1"), story.open("r1"), story.open("r2")
    story.send(s)
    note = give_back(story, r1, story.take(r1, 1), elsewhere=True)
    story.consume(r1 if where == "here" else r2, 1, 1, notes=[note])
    assert story.rules() == ({"elsewhere"} if where == "here" else set())


# ---- planting


def honest() -> list[dict[str, Any]]:
    """A history of all kinds in which every plant finds a place."""
    story = Story()
    for kind in kinds.KINDS:
        play(story, kind)
    story.end()
    return story.lines


def play(story: Story, kind: str) -> None:
    queue = f"x-{kind}"
    if kinds.KINDS[kind].program:
        programs(story, queue)
        return
    if kinds.KINDS[kind].roams:
        (moved if kinds.KINDS[kind].away else dying)(story)
        return
    if kinds.KINDS[kind].later:
        later(story, queue)
        return
    s, s2 = story.open("s1", queue, capacity=1), story.open("s2", queue, capacity=1)
    r1, r2 = (
        story.open("r1", queue, wants=["k0"]) if kind == "selected" else story.open("r1", queue),
        story.open("r2", queue),
    )
    look(story, queue, 0)
    if kind == "limit":
        for number in story.send(s, 1, queue=queue):
            story.consume(r1, number, queue=queue)
        story.sent(s, LIMIT - 1, queue=queue)
        look(story, queue, 7, True, 1)
        (withheld,) = story.sent(s2, 1, queue=queue)
        look(story, queue, 7, True, 1)
        look(story, queue, 7, True, 1)
        story.known(s2, range(withheld, withheld + 1))
        story.known(s, range(2, LIMIT + 1))
        for number in range(2, LIMIT + 1):
            story.consume(r1, number, queue=queue)
        story.consume(r2, withheld, producer="s2", queue=queue)
        tally(story, queue, enqueued=LIMIT + 1, accepted=LIMIT + 1)
        return
    if kind == "ring":
        story.send(s, 2 * RING, queue=queue)
        d = story.open("drain", queue)
        for number in range(RING + 1, 2 * RING + 1):
            story.consume(d, number, queue=queue)
        tally(story, queue, enqueued=2 * RING, accepted=RING, discarded=RING, discarded_ring=RING)
        return
    count = 40
    story.send(s, count, queue=queue)
    numbers = list(range(1, count + 1))
    taken = {"levels": 3, "fair": 3, "last": 0, "shares": 0}.get(kind, count)
    if kind == "selected":
        first = numbers_of(kind, "k0", 3)
        numbers = [*first, *(number for number in numbers if number not in first)]
    for at, number in enumerate(numbers[:taken]):
        link = r1 if at % 2 == 0 or (kind == "selected" and at < 3) else r2
        if kind == "selected" and at >= 3:
            link = r2
        if at == 0 and kind == "groups":
            note = give_back(story, link, story.take(link, number, queue=queue))
            story.consume(link, number, 1, notes=[note], queue=queue)
            continue
        story.consume(link, number, queue=queue, stamp=number)
    left(story, queue, kind, numbers[taken:])
    tally(story, queue, enqueued=count, accepted=count)


def left(story: Story, queue: str, kind: str, numbers: list[int]) -> None:
    """The rest is drained, in the order of its kind."""
    what = kinds.KINDS[kind]
    d = story.open("drain", queue)
    if kind == "levels":
        for number in sorted(numbers, key=lambda number: (-what.level(number), number)):
            story.consume(d, number, queue=queue)
    elif kind == "shares":
        waiting = {level: [n for n in numbers if what.level(n) == level] for level in (2, 1, 0)}
        while any(waiting.values()):
            for mine in waiting.values():
                for number in mine[: what.share]:
                    story.consume(d, number, queue=queue)
                del mine[: what.share]
    elif kind == "fair":
        lines = {key: [n for n in numbers if what.key(n) == key] for key in ("k0", "k1")}
        while any(lines.values()):
            for mine in lines.values():
                if mine:
                    story.consume(d, mine.pop(0), queue=queue)
    elif kind == "last":
        for number in sorted(last_of_keys(numbers)):
            story.consume(d, number, queue=queue)


def test_the_honest_history_passes():
    found = History()
    take(found, honest())
    assert history.check(found, strict=True).violations == []


@pytest.mark.parametrize("name", [name for name, plant in plants.PLANTS.items() if plant.kind in kinds.KINDS])
def test_every_plant_is_found(name):
    plant = plants.PLANTS[name]
    found = History()
    lines = planting.by_kind(json.loads(json.dumps(honest())))[plant.kind]
    take(found, plant.sow(lines))
    assert plant.rule in history.check(found).rules


def test_of_kinds_that_are_not_there_nothing_is_planted():
    story = Story()
    play(story, "ring")
    story.end()
    missed = plants.escaped(story.lines)
    assert not any(plants.PLANTS[name].kind for name in missed)


@pytest.mark.parametrize(("outcome", "proves"), [("unknown", False), ("failed", True)])
def test_where_nobody_knows_whether_a_newer_one_came_nothing_is_planted(outcome, proves):
    plant = plants.PLANTS["the newest of its key goes"]
    story = Story()
    s = story.open("s1", "x-last")
    story.send(s, 10, queue="x-last")
    d = story.open("drain", "x-last")
    for number in sorted(last_of_keys(list(range(1, 11)))):
        story.consume(d, number, queue="x-last")
    story.send(s, 20, outcome, queue="x-last")
    found = History()
    if proves:
        take(found, plant.sow(story.lines))
        assert plant.rule in history.check(found).rules
    else:
        with pytest.raises(planting.Unprovable):
            plant.sow(story.lines)
