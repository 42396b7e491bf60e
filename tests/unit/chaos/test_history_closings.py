"""The rules of connections that an operator closes, on histories written by hand: `o` closes; `s1` sends."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from chaos_story import Story
from mantamq.client import Connection
from mantamq.client.errors import ConnectionLost, NotFound

from tests.chaos import closing, history, planting, plants, plants_closings
from tests.chaos.history_closings import HEARD_S, said
from tests.chaos.journal import Closing, History, read, take


@pytest.fixture
def story() -> Story:
    return Story()


def begins(story: Story, *ids: str, client: str = "s1", life: int = 0) -> None:
    for id in ids:
        story.line("connected", client, connection=id, broker="b1", life=life)


def closes(story: Story, id: str, reason: str = "repair 1", outcome: str = "completed", alone: bool = False) -> None:
    what = {"connection": id, "broker": "b1", "reason": reason, "alone": alone}
    story.line("closing", "o", outcome="sent", **what)
    if outcome != "sent":
        story.line("closing", "o", outcome=outcome, **what)


def ends(story: Story, id: str, why: str = "", client: str = "s1", interruptions: int = 0) -> None:
    story.line("ended", client, connection=id, why=why, interruptions=interruptions)


def honest(story: Story, alone: bool = False) -> list[dict[str, Any]]:
    begins(story, "c1", "c2")
    closes(story, "c1", alone=alone)
    ends(story, "c1", said("repair 1"))
    begins(story, "c3")
    ends(story, "c2")
    ends(story, "c3")
    story.end()
    return story.lines


@pytest.mark.parametrize("alone", [False, True])
def test_an_honest_history(story, alone):
    found = History()
    take(found, honest(story, alone))
    verdict = history.check(found)
    assert verdict.violations == [] and verdict.counts["closings heard"] == 1


@pytest.mark.parametrize("name", plants_closings.PLANTS)
def test_every_plant_is_found(story, name):
    found = History()
    lines = planting.by_kind(json.loads(json.dumps(honest(story))))["closings"]
    plant = plants.PLANTS[name]
    take(found, plant.sow(lines))
    assert history.check(found).rules >= {plant.rule}


def test_where_nobody_has_heard_of_an_operator_nothing_is_planted(story):
    begins(story, "c1")
    story.end()
    assert "closings" not in planting.by_kind(story.lines)


def test_nobody_hears_of_an_operator_before_he_asks(story):
    begins(story, "c1")
    ends(story, "c1", said("repair 1"))
    closes(story, "c1")
    assert story.rules() == {"closed"}


@pytest.mark.parametrize(("given", "heard"), [("", "no reason given"), ("a" * 600, "a" * 500)])
@pytest.mark.parametrize(("short", "found"), [(0, set()), (1, {"closed"})])
def test_what_is_told_of_a_reason(story, given, heard, short, found):
    begins(story, "c1")
    closes(story, "c1", given)
    ends(story, "c1", said(heard[short:]))
    assert story.rules() == found


def test_the_code_is_told_as_well(story):
    begins(story, "c1")
    closes(story, "c1")
    ends(story, "c1", said("repair 1").replace("not-allowed", "in-use"))
    assert story.rules() == {"closed"}


@pytest.mark.parametrize(("outcome", "found"), [("completed", {"closed"}), ("unknown", set()), ("sent", set())])
def test_who_is_closed_and_goes_on(story, outcome, found):
    begins(story, "c1")
    closes(story, "c1", outcome=outcome)
    story.t += HEARD_S
    ends(story, "c1")
    assert story.rules() == found


def test_who_was_about_to_go_hears_nothing(story):
    begins(story, "c1")
    closes(story, "c1")
    ends(story, "c1", "ConnectionLost: its broker ends")
    assert story.rules() == set()


def test_who_is_killed_tells_nothing(story):
    begins(story, "c1", client="p1.1", life=1)
    closes(story, "c1")
    story.finish = False
    story.line("done", "o")
    assert story.rules() == set()


def test_who_never_ends_was_not_closed(story):
    begins(story, "c1")
    closes(story, "c1")
    assert story.rules() == {"closed"}


@pytest.mark.parametrize(("interruptions", "found"), [(0, {"closed"}), (1, set())])
def test_who_is_not_found_is_not_there(story, interruptions, found):
    begins(story, "c1")
    closes(story, "c1", outcome="failed")
    ends(story, "c1", interruptions=interruptions)
    assert story.rules() == found


@pytest.mark.parametrize(("alone", "found"), [(False, set()), (True, {"closed"})])
@pytest.mark.parametrize("more", [{"why": "ConnectionLost: silent"}, {"interruptions": 1}])
def test_where_nothing_else_happens_nobody_else_ends(story, alone, found, more):
    begins(story, "c1", "c2")
    closes(story, "c1", alone=alone)
    ends(story, "c1", said("repair 1"))
    ends(story, "c2", **more)
    assert story.rules() == found


class FakeConnection:
    """To broker b1; some ask, and one goes before it is closed."""

    def __init__(self) -> None:
        self.broker = "b1"
        self._conversation = SimpleNamespace(_client="mine")
        self.asked: list[tuple[str, str]] = []

    def statistics(self, part: str) -> dict[str, list[Any]]:
        there = [("mine", "b1"), ("c1", "b1"), ("c2", "b1"), ("gone", "b1"), ("c3", "b2"), ("ill", "b1")]
        return {part: [{"client": client, "broker": broker} for client, broker in there]}

    def close_connection(self, client: str, reason: str) -> None:
        self.asked.append((client, reason))
        if client in ("gone", "ill"):
            raise NotFound if client == "gone" else ConnectionLost


def test_an_operator_names_who_is_at_his_broker_and_writes_it_down(tmp_path):
    connection, closer = FakeConnection(), closing.Closer(tmp_path / "closer.jsonl", alone=True)
    chance = cast(Any, SimpleNamespace(choice=lambda counts: max(counts), sample=random.Random(1).sample))
    assert sorted(closer.close(cast(Connection, connection), chance)) == ["c1", "c2"]
    closer.done()
    found = read([tmp_path / "closer.jsonl"])
    assert [(one.connection, one.reason) for one in found.closings] == connection.asked
    assert {one.connection: one.outcome for one in found.closings} == {
        "c1": "completed", "c2": "completed", "gone": "failed", "ill": "unknown",
    }  # fmt: skip
    assert all(one.alone and one.asked <= one.t for one in found.closings) and found.finished == {"closer"}
    reasons = [one.reason for one in found.closings]
    assert len(set(reasons)) == 4 and "" in reasons and max(map(len, reasons)) > 500


def test_a_closing_that_nobody_answered_is_one(story):
    begins(story, "c1")
    closes(story, "c1", outcome="sent")
    ends(story, "c1", said("repair 1"))
    found = story.end()
    assert isinstance(found.closings[0], Closing) and history.check(found).violations == []
