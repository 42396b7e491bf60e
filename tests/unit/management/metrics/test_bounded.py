"""Labels that stay few, and counters that only go up."""

from __future__ import annotations

from typing import Any

from mantamq.management.metrics.bounded import OTHER, BoundedRows


def rows_of(most: int = 2) -> BoundedRows:
    sizes = (lambda row: row.get("depth", 0), lambda row: row.get("through", 0))
    return BoundedRows("name", "id", ("in", "out"), sizes, most)


def row(name: str, **values: Any) -> dict[str, Any]:
    return {"id": f"id of {name}", "name": name} | values


def test_while_there_are_few_each_has_a_label_and_there_are_no_others():
    rows = rows_of()
    rows.take([row("a", depth=1), row("b")])
    assert rows.labels() == ["a", "b"]
    assert list(rows.gauges("depth")) == [("a", 1)]
    rows.take([row("a", depth=2)])
    assert rows.labels() == ["a"]


def test_the_deepest_and_those_with_most_traffic_share_the_labels():
    rows = rows_of(most=4)
    deep = [row(f"deep{n}", depth=1000 + n) for n in range(4)]
    busy = [row(f"busy{n}", through=10 + n) for n in range(4)]
    rows.take(deep + busy)
    assert sorted(rows.labels()) == ["busy2", "busy3", "deep2", "deep3", OTHER]


def test_who_is_largest_in_both_ways_takes_one_label():
    rows = rows_of(most=2)
    rows.take([row("both", depth=9, through=9), row("second", through=5), row("third", depth=1)])
    assert sorted(rows.labels()) == ["both", OTHER, "second"]


def test_a_label_is_given_up_only_for_one_that_is_twice_as_large():
    rows = rows_of(most=1)
    rows.take([row("a", through=10), row("b", through=9)])
    rows.take([row("a", through=10), row("b", through=19)])
    assert rows.labels()[0] == "a"
    rows.take([row("a", through=10), row("b", through=21)])
    assert rows.labels()[0] == "b"


def test_a_row_that_is_named_as_the_others_is_one_of_them():
    rows = rows_of()
    rows.take([row(OTHER, depth=7), row("a", depth=1)])
    assert list(rows.gauges("depth")) == [("a", 1), (OTHER, 7)]
    assert rows.labels() == ["a", OTHER]


def test_gauges_of_the_others_are_summed_or_the_largest():
    rows = rows_of(most=1)
    rows.take([row("a", through=9, depth=1), row("b", depth=2), row("c", depth=5), row("d")])
    assert dict(rows.gauges("depth")) == {"a": 1, OTHER: 7}
    assert dict(rows.gauges("depth", max, 0.5)) == {"a": 0.5, OTHER: 2.5}
    assert dict(rows.gauges("nothing")) == {OTHER: 0}


def test_the_count_of_the_others_does_not_jump_when_a_row_comes_to_them_or_goes():
    rows = rows_of(most=1)
    big, small = {"through": 100, "in": 1000}, {"through": 1, "in": 500}
    rows.take([row("a", **big), row("b", **small)])
    assert dict(rows.counts("in")) == {"a": 1000, OTHER: 0}
    rows.take([row("a", **big), row("b", **small | {"in": 510})])
    assert dict(rows.counts("in")) == {"a": 1000, OTHER: 10}
    rows.take([row("a", through=1, **{"in": 1003}), row("b", through=100, **{"in": 520})])
    assert dict(rows.counts("in")) == {"b": 520, OTHER: 13}, "they changed places"
    rows.take([row("a", through=500, **{"in": 1010}), row("b", through=1, **{"in": 521})])
    assert dict(rows.counts("in")) == {"a": 1007, OTHER: 14}, "it goes on from what its label had"
    rows.take([row("a", through=500, **{"in": 1010})])
    assert dict(rows.counts("in")) == {"a": 1007, OTHER: 14}, "what is deleted takes nothing with it"


def test_what_is_declared_among_the_others_counts_from_its_beginning():
    rows = rows_of(most=1)
    rows.take([row("a", through=9), row("b", **{"in": 500})])
    rows.take([row("a", through=9), row("b", **{"in": 500}), row("new", **{"in": 3})])
    assert dict(rows.counts("in"))[OTHER] == 3


def test_a_counter_that_becomes_less_is_gone_on_from():
    rows = rows_of()
    for count in (1000, 990, 995):
        rows.take([row("a", **{"in": count})])
    assert dict(rows.counts("in")) == {"a": 1005}


def test_what_other_processes_counted_is_no_growth():
    rows = rows_of()
    for count, alike in ((1000, True), (600, False), (605, True), (1010, False), (1011, True)):
        rows.take([row("a", **{"in": count})], alike)
    assert dict(rows.counts("in")) == {"a": 1006}


def test_a_count_that_is_not_said_is_as_it_was():
    rows = rows_of()
    rows.take([row("a", **{"in": 1000, "out": 1})])
    rows.take([row("a")])
    assert dict(rows.counts("in")) == {"a": 1000}
    rows.take([row("a", **{"in": 1001, "out": 1})])
    assert dict(rows.counts("in")) == {"a": 1001}


def test_a_queue_that_is_declared_anew_begins_anew():
    rows = rows_of()
    rows.take([row("a", **{"in": 1000})])
    rows.take([row("a", id="another", **{"in": 3})])
    assert dict(rows.counts("in")) == {"a": 3}
