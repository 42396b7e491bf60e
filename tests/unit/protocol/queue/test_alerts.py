"""Alerts alone: told at the threshold itself, once until it is over, again after the gap, by one who speaks for all."""

from __future__ import annotations

import pytest
from mantamq.protocol.errors import PeerError
from mantamq.protocol.queue.alerts import Alert, Alerts
from mantamq.protocol.queue.declared import declared
from mantamq.protocol.queue.settings import DEFAULT


def alerts(up: int = 10, down: int = 5, gap: int = 60, what: str = "count") -> Alerts:
    own = "manta" if what == "age" else "qpid"
    names = {f"{own}.alert_{what}_up": up, "qpid.alert_repeat_gap": gap}
    return Alerts(declared(names | ({f"{own}.alert_{what}_down": down} if down != DEFAULT else {})))


def told(one: Alerts, count: int, at_s: float, speaks: bool = True, what: str = "count") -> list[tuple[bool, int]]:
    levels = {"count": 0, "size": 0, "age": 0} | {what: count}
    return [(alert.up, alert.level) for alert in one.look(levels, int(at_s * 1000), speaks)]


def test_both_thresholds_belong_to_it():
    one = alerts()
    assert [told(one, count, second) for second, count in enumerate((9, 10, 6, 5, 4))] == [
        [], [(True, 10)], [], [(False, 5)], []]  # fmt: skip


def test_what_swings_between_the_two_is_told_once():
    one = alerts()
    assert [told(one, count, second) for second, count in enumerate((12, 9, 6, 10, 11, 6, 10))] == [
        [(True, 12)], [], [], [], [], [], []]  # fmt: skip


def test_while_it_stays_it_is_told_again_after_the_gap():
    one = alerts(gap=60)
    assert told(one, 10, 0) == [(True, 10)] and one.next_ms == 60_000
    assert told(one, 11, 59.999) == []
    assert told(one, 12, 60) == [(True, 12)] and one.next_ms == 120_000
    assert told(one, 5, 61) == [(False, 5)] and one.next_ms == 0


def test_nor_is_it_told_anew_within_the_gap():
    one = alerts(gap=60)
    assert told(one, 10, 0) == [(True, 10)]
    assert told(one, 4, 1) == [(False, 4)]
    assert told(one, 10, 2) == [] and one.next_ms == 60_000
    assert told(one, 5, 3) == [], "what was not told is not over"
    assert told(one, 10, 4) == []
    assert told(one, 10, 60) == [(True, 10)]


def test_without_a_gap_each_crossing_is_told_and_no_repeat():
    one = alerts(gap=0)
    assert told(one, 10, 0) == [(True, 10)] and one.next_ms == 0
    assert told(one, 10, 10_000) == []
    assert told(one, 5, 10_001) == [(False, 5)]
    assert told(one, 10, 10_002) == [(True, 10)]


def test_who_comes_to_speak_tells_what_is_up_and_when_it_is_over():
    for gap in (0, 60):
        one = alerts(gap=gap)
        assert told(one, 10, 0, speaks=False) == [] == told(one, 12, 1, speaks=False)
        assert told(one, 12, 2) == [(True, 12)] and told(one, 12, 3) == []
        assert told(one, 5, 4) == [(False, 5)]


def test_who_comes_to_speak_tells_what_is_over_since_a_moment_ago():
    for later_s, heard in (10, [(False, 4)]), (10.1, []):
        one = alerts()
        assert told(one, 10, 0, speaks=False) == [] == told(one, 4, 5, speaks=False)
        assert told(one, 4, 5 + later_s) == heard
        assert told(one, 4, 30) == []


def test_a_replica_that_joins_knows_what_is_not_over():
    settings = declared({"qpid.alert_count_up": 10, "qpid.alert_size_up": 10})
    one = Alerts(settings)
    one.look({"count": 10, "size": 3, "age": 0}, 1000, speaks=False)
    other = Alerts(settings, one.raised)
    assert one.raised == other.raised == ["count"]
    assert other.look({"count": 4, "size": 3, "age": 0}, 2000) == [Alert("count", False, 4, 5)] and other.raised == []


def test_between_the_two_nothing_is_told_up():
    one = alerts(gap=60)
    assert told(one, 10, 0) == [(True, 10)]
    assert told(one, 7, 60) == [] and one.next_ms == 0
    assert told(one, 10, 61) == [(True, 10)]
    other = Alerts(declared({"qpid.alert_count_up": 10}), ["count"])
    assert told(other, 7, 0) == [] and other.next_ms == 0 and told(other, 5, 1) == [(False, 5)]


def test_half_of_the_upper_is_the_lower_unless_it_is_given():
    one = alerts(11, DEFAULT)
    assert told(one, 11, 0) == [(True, 11)] and told(one, 6, 1) == [] and told(one, 5, 2) == [(False, 5)]


def test_age_is_looked_at_when_it_may_be_reached_though_nothing_happens():
    one = alerts(30, 10, what="age")
    assert one.look({"count": 0, "size": 0, "age": 0}, 1000) == [] and one.next_ms == 0
    assert one.look({"count": 3, "size": 9, "age": 12}, 5000) == [] and one.next_ms == 23_000
    assert one.look({"count": 3, "size": 9, "age": 30}, 23_000) == [Alert("age", True, 30, 30)]
    assert one.look({"count": 3, "size": 9, "age": 2}, 24_000) == [Alert("age", False, 2, 10)]


def test_its_text_says_what_has_reached_what():
    assert Alert("count", True, 1200, 1000).text == "1,200 messages, and alert_count_up is 1,000"
    assert Alert("size", False, 400, 500).text == "400 bytes again, and alert_size_down is 500"
    assert Alert("age", True, 31, 30).text == "its oldest message is 31 seconds old, and alert_age_up is 30"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"qpid.alert_count_down": 5}, "alert_count_down needs an alert_count_up"),
        ({"qpid.alert_count_up": 5, "qpid.alert_count_down": 5}, "alert_count_down 5 is not below alert_count_up 5"),
        ({"manta.alert_age_up": 5, "manta.alert_age_down": 9}, "alert_age_down 9 is not below alert_age_up 5"),
        ({"qpid.alert_size_up": 0}, "'qpid.alert_size_up' is 0: give a number of bytes"),
        ({"qpid.alert_size_up": "many"}, "'qpid.alert_size_up' is 'many'"),
        ({"qpid.alert_repeat_gap": 5}, "alert_repeat_gap needs an alert"),
        ({"qpid.alert_count": 5, "qpid.alert_count_up": 6}, "means the same: give one"),
    ],
)
def test_thresholds_that_contradict_each_other_are_refused(arguments, text):
    with pytest.raises(PeerError) as error:
        declared(arguments)
    assert text in error.value.text


def test_qpids_older_names_mean_the_same():
    older = declared({"qpid.alert_count": "5", "qpid.alert_size": "100"})
    assert older == declared({"qpid.alert_count_up": 5, "qpid.alert_size_up": 100})
    assert older.alerts == {"count": (5, 2), "size": (100, 50)}
