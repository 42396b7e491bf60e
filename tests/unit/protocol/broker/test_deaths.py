"""What a dead letter says of how it died, and where it must not come to."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.broker.deaths import DEATHS, noted
from mantamq.protocol.wire.message import Header, encode, header
from mantamq.protocol.wire.queue_frames import DeadLetter

NOW_MS = 1_700_000_000_123


def message(properties: dict[str, Any] | None = None) -> bytes:
    return encode(Header(b"body", "subject", properties))


def died(blob: bytes, queue: str = "q", cause: str = "rejected", counts: tuple[int, ...] = ()) -> Any:
    """(the letter, where it must not come to) of a message that dies at position 7."""
    ((letter, shunned),) = noted(DeadLetter(f"{queue}#1", 5, "lost", [blob], cause=cause, positions=[7],
                                            counts=list(counts)), NOW_MS)  # fmt: skip
    return letter, shunned


def test_a_letter_says_why_and_from_where_it_comes_beside_what_it_was():
    letter, shunned = died(message({"colour": "red"}), counts=(0, 3))
    assert (header(letter).body, header(letter).subject) == (header(message()).body, "subject")
    assert header(letter).properties == {
        "colour": "red",
        "manta.death_cause": "rejected",
        "manta.death_queue": "q",
        "manta.death_position": 7,
        "manta.death_deliveries": 3,
        "manta.first_death_ms": NOW_MS,
        "x-first-death-reason": "rejected",
        "x-first-death-queue": "q",
        "x-death": [{"queue": "q", "reason": "rejected", "count": 1, "time": NOW_MS // 1000}],
    }
    assert shunned == {"q"}, "not back by itself to where it has just died"


def test_of_several_each_has_its_own_place_and_count():
    frame = DeadLetter("q#1", 5, "lost", [message()] * 3, cause="expired", positions=[4, 5, 9], counts=[1, 2])
    properties = [header(letter).properties or {} for letter, _ in noted(frame, NOW_MS)]
    assert [one["manta.death_position"] for one in properties] == [4, 5, 9]
    assert [one["manta.death_deliveries"] for one in properties] == [0, 2, 0]


def test_the_newest_death_is_first_and_the_same_again_is_counted():
    letter, _ = died(message(), "work", "rejected")
    letter, _ = died(letter, "wait", "expired")
    letter, _ = died(letter, "work", "rejected")
    properties: Any = header(letter).properties
    assert [(one["queue"], one["reason"], one["count"]) for one in properties[DEATHS]] == [
        ("work", "rejected", 2),
        ("wait", "expired", 1),
    ]
    assert (properties["x-first-death-queue"], properties["manta.death_queue"]) == ("work", "work")


def test_a_message_that_nobody_rejects_comes_to_no_queue_twice():
    letter, shunned = died(message(), "one", "expired")
    letter, shunned = died(letter, "two", "maxlen")
    assert shunned == {"one", "two"}
    letter, shunned = died(letter, "three", "rejected")
    assert shunned == {"three"}, "a consumer had a say"
    _, shunned = died(letter, "four", "expired")
    assert shunned == {"four"}


def test_what_is_no_message_stays_as_it_is_and_strange_deaths_are_passed_over():
    assert died(b"\xc1")[0] == b"\xc1"
    for deaths in (5, ["x", {"queue": 3, "reason": "expired"}], [{"count": "many", "queue": "q", "reason": "expired"}]):
        letter, shunned = died(message({DEATHS: deaths}), cause="expired")
        assert (header(letter).properties or {})[DEATHS][0]["count"] == 1 and shunned == {"q"}
