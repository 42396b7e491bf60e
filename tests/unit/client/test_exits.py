"""docs/exits.md lists every way out of a queue: each row is gone through here, and nothing else is counted by it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fake_broker import FakeBroker, passing_time, wait_until
from mantamq.client import Message, ResourceLimitExceeded, connect

pytestmark = pytest.mark.timeout(20)
PAGE = Path(__file__).parents[3] / "docs" / "exits.md"
NOWHERE, ALTERNATE, RECEIVER = "nowhere", "the alternate", "with the receiver"
REFUSED = "with its sender: `ResourceLimitExceeded`"
MOVED = "where it is sent to"


class Exit(NamedTuple):
    """A row of the page. Attributes: counted: the counts that rise. says: the cause that a dead letter names, or "-"."""

    happens: str
    where: str
    counted: frozenset[str]
    says: str


def rows(page: str) -> Iterator[Exit]:
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and not set(cells[0]) <= {"-"} and cells[0] != "What happens":
            yield Exit(cells[0], cells[1], frozenset(re.findall(r"`(\w+)`", cells[2])), cells[3].strip("`"))


EXITS = list(rows(PAGE.read_text()))


class Stage:
    """A queue "q" with one message `b"it"` in it, which is to leave.

    Args:
        delay: for so many seconds what is sent is not available; None: it is at once.

    Attributes:
        refused: what the sender heard. taken: what a receiver was given that it need not accept.
    """

    def __init__(self, connection: Any, delay: float | None = None) -> None:
        self.delay = delay
        self.connection = connection
        self.session = connection.session()
        self.refused: list[Exception] = []
        self.taken: list[bytes] = []
        connection.declare_exchange("lost", "fanout")
        connection.declare_queue("dead")
        connection.bind("lost", "dead")

    def declare(self, **options: Any) -> None:
        self.connection.declare_queue("q", **options)

    def send(self, body: bytes = b"it", **options: Any) -> None:
        sender = self.session.sender("q")
        message = Message(body, **options)
        if self.delay is None:
            sender.send(message)
        else:
            sender.send_later(message, delay=self.delay)
        sender.sync(5)

    def fetch(self) -> Message:
        return self.session.receiver("q", capacity=1).fetch(5)

    def come_back(self) -> None:
        """It is given back more often than once."""
        receiver = self.session.receiver("q", capacity=1)
        for _ in range(2):
            self.session.release(receiver.fetch(5))
            self.session.sync(5)

    def figures(self) -> dict[str, int]:
        """All counts of ways out."""
        told = self.connection.queue("q")
        return {
            name: value
            for name, value in told.items()
            if name in ("accepted", "discarded", "dead_lettered", "expired", "refused", "duplicates", "moved")
            or (name.startswith(("discarded_", "dead_")) and name != "dead_lettering" and type(value) is int)
        }


def acknowledged(stage: Stage) -> None:
    stage.declare(alternate="lost")
    stage.send()
    stage.session.acknowledge(stage.fetch())


def not_to_be_accepted(stage: Stage) -> None:
    stage.declare(alternate="lost")
    stage.send()
    stage.taken.append(stage.session.receiver("q", accept=False).fetch(5).body)


def rejected(stage: Stage, **options: Any) -> None:
    stage.declare(**options)
    stage.send()
    stage.session.reject(stage.fetch())


def expires(stage: Stage, **options: Any) -> None:
    stage.declare(**options)
    stage.send(ttl=0.2)
    wait_until(lambda: stage.connection.queue("q")["messages"] == 0)


def comes_back(stage: Stage, **options: Any) -> None:
    stage.declare(delivery_limit=1, **options)
    stage.send()
    stage.come_back()


def makes_room(stage: Stage, **options: Any) -> None:
    stage.declare(max_count=1, **options)
    stage.send()
    stage.send(b"another")


def replaced(stage: Stage) -> None:
    stage.declare(last_value_key="k", alternate="lost")
    stage.send(properties={"k": 1})
    stage.send(b"another", properties={"k": 1})


def refused(stage: Stage) -> None:
    stage.declare(max_count=1, overflow="reject", alternate="lost", flow_stop_count=0)
    stage.send(b"another")
    with pytest.raises(ResourceLimitExceeded) as heard:
        stage.send()
    stage.refused.append(heard.value)


def came_before(stage: Stage) -> None:
    stage.declare(dedupe_window_count=10, alternate="lost")
    stage.send(b"another", message_id="1")
    stage.send(message_id="1")


def purged(stage: Stage) -> None:
    stage.declare(alternate="lost")
    stage.send()
    stage.connection.purge("q")


def purged_by_a_selector(stage: Stage) -> None:
    stage.declare(alternate="lost")
    stage.send(properties={"n": 1})
    stage.connection.purge("q", selector="n = 1")


def moved(stage: Stage) -> None:
    stage.declare(alternate="lost")
    stage.send()
    stage.connection.declare_queue("other")
    stage.connection.move("q", "other")
    assert [message.body for message in stage.session.browse("other")] == [b"it"]


def deleted(stage: Stage) -> None:
    """Nobody can ask the queue any more what it has counted."""
    stage.declare(alternate="lost")
    stage.send()
    if stage.delay is None:
        stage.fetch()
    stage.connection.delete_queue("q")


WAYS: dict[str, Callable[[Stage], None]] = {
    "a consumer acknowledges it": acknowledged,
    "it is given to a receiver of `accept=False`": not_to_be_accepted,
    "a consumer rejects it": lambda stage: rejected(stage, alternate="lost"),
    "a consumer rejects it, and there is no alternate": rejected,
    "its time is over": lambda stage: expires(stage, alternate="lost"),
    "its time is over, and there is no alternate": expires,
    'its time is over, with `dead_letters="rejected"`': (
        lambda stage: expires(stage, alternate="lost", dead_letters="rejected")
    ),
    "it comes back more often than `delivery_limit` says": lambda stage: comes_back(stage, alternate="lost"),
    "it comes back too often, and there is no alternate": comes_back,
    'it makes room in a full queue, with `overflow="ring"`': (
        lambda stage: makes_room(stage, overflow="ring", alternate="lost")
    ),
    'it makes room, with `overflow="dead-letter"`': (
        lambda stage: makes_room(stage, overflow="dead-letter", alternate="lost")
    ),
    "a newer value of its `last_value_key` comes": replaced,
    "it is refused, for the queue is full": refused,
    "its `message_id` came before, in a queue with `dedupe_window_s` or `dedupe_window_count`, and it is not redriven "
    "or moved to it by its name": came_before,
    "the queue is purged": purged,
    "the queue is purged by a selector": purged_by_a_selector,
    "it is moved to another queue, rerouted or redriven": moved,
    "its queue is deleted, whoever holds it": deleted,
}
OF_DELAYED = [row for row in EXITS if WAYS[row.happens] in (refused, came_before, purged, deleted)
              or row.happens.startswith(("its time is over", "it makes room"))]  # fmt: skip
"""The ways of a message that is delayed and will not be due for long: nobody consumes it, nor does it make room for a
newer value before."""


def test_every_row_is_gone_through():
    assert [row.happens for row in EXITS] == list(WAYS)


@pytest.mark.parametrize("row", EXITS, ids=lambda row: row.happens)
def test_a_message_leaves_by_it(row):
    leaves(row)


@pytest.mark.parametrize("row", OF_DELAYED, ids=lambda row: row.happens)
def test_a_message_leaves_by_it_while_it_is_delayed(row):
    leaves(row, delay=3600)


def leaves(row: Exit, delay: float | None = None) -> None:
    with FakeBroker(2) as cluster, passing_time(cluster), connect(cluster.address) as connection:
        stage = Stage(connection, delay)
        WAYS[row.happens](stage)
        dead = int(row.where == ALTERNATE)
        wait_until(lambda: connection.queue("dead")["messages"] == dead)
        if "q" in [queue["name"] for queue in connection.queues()]:
            stage.session.sync(5)
            wait_until(lambda: connection.queue("q")["dequeued"] == 1)
            assert stage.figures() == {name: int(name in row.counted) for name in stage.figures()}
            assert b"it" not in [message.body for message in stage.session.browse("q")]
        else:
            assert row.says == "deleted"
        letters = list(stage.session.browse("dead"))
        assert [letter.body for letter in letters] == [b"it"] * dead
        assert [(letter.properties or {})["manta.death_cause"] for letter in letters] == [row.says] * dead
        assert dead or row.says == "-"
        assert bool(stage.refused) == (row.where == REFUSED) and bool(stage.taken) == (row.where == RECEIVER)
        assert row.where in (NOWHERE, ALTERNATE, RECEIVER, REFUSED, MOVED)


def test_all_counts_of_the_page_are_those_that_there_are(cluster, connection):
    """A count that is told and stands in no row is a way out that the page does not know."""
    stage = Stage(connection)
    stage.declare(max_count=1, overflow="reject")
    assert frozenset(stage.figures()) == frozenset().union(*(row.counted for row in EXITS))
