"""Dashboards: what they ask Prometheus for is what the table of metrics has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from lark import Lark, Token, Tree
from lark.exceptions import LarkError
from mantamq.management.metrics.grafana import OWN, RAY, WIDTH, Panel, Query, _panel, dashboards
from mantamq.management.metrics.registry import COUNTER, METRICS

PROMQL = Lark(
    r"""
    ?start: expression
    ?expression: expression OPERATOR term | term
    ?term: aggregation | ranking | speed | selector | NUMBER | "(" expression ")"
    aggregation: AGGREGATOR [labels] "(" expression ")"
    ranking: "topk" "(" NUMBER "," expression ")"
    speed: "rate" "(" selector range ")"
    range: "[" DURATION "]"
    selector: NAME "{" [matcher ("," matcher)*] "}"
    matcher: NAME MATCH STRING
    labels: "by" "(" NAME ("," NAME)* ")"
    AGGREGATOR.2: "sum" | "max" | "min"
    MATCH: "=~" | "!~" | "!=" | "="
    OPERATOR: "/" | "*" | "+" | "-"
    DURATION: /\$__rate_interval|\d+[smh]/
    NAME: /[a-zA-Z_][a-zA-Z0-9_]*/
    STRING: /"(\\.|[^"\\])*"/
    NUMBER: /\d+(\.\d+)?/
    %ignore /\s+/
    """,
    parser="lalr",
)
"""As much of PromQL as dashboards use. Anything else is no query here: the grammar is to be widened with care."""
OF_TARGETS = {"job"}
"""Labels that Prometheus itself gives to all that it scrapes."""
GRAFANA_UNITS = {"short", "s", "bytes", "Bps", "cps", "ops", "percentunit", "bool_yes_no"}

KNOWN = {metric.name: metric for metric in METRICS}


def wrong_in(query: str, prefix: str) -> list[str]:
    """What a query asks for that is not there, or not so."""
    try:
        tree = PROMQL.parse(query)
    except LarkError as error:
        return [f"{query} is no query: {error}"]
    return list(wrong_below(tree, prefix, False))


def wrong_below(tree: Any, prefix: str, in_rate: bool) -> Iterator[str]:
    if not isinstance(tree, Tree):
        return
    if tree.data == "selector":
        yield from wrong_selector(tree, prefix, in_rate)
    elif tree.data == "aggregation":
        kept = names(next(tree.find_data("labels"))) if isinstance(tree.children[1], Tree) else set()
        for selector in tree.find_data("selector"):
            has = set(KNOWN[name].labels) if (name := str(selector.children[0]).removeprefix(prefix)) in KNOWN else kept
            yield from (f"{name} has no label {label}" for label in sorted(kept - has - OF_TARGETS))
    for child in tree.children:
        yield from wrong_below(child, prefix, tree.data == "speed")


def wrong_selector(tree: Tree[Token], prefix: str, in_rate: bool) -> Iterator[str]:
    full, *matchers = tree.children
    name = str(full).removeprefix(prefix)
    if name not in KNOWN or not str(full).startswith(prefix):
        yield f"there is no {full}"
        return
    for matcher in matchers:
        if isinstance(matcher, Tree) and (label := str(matcher.children[0])) not in {*KNOWN[name].labels, *OF_TARGETS}:
            yield f"{name} has no label {label}"
    if in_rate != (KNOWN[name].kind == COUNTER):
        yield f"{name} is a {KNOWN[name].kind}, so {'there is no rate of it' if in_rate else 'only its rate says much'}"


def names(tree: Tree[Token]) -> set[str]:
    return {str(token) for token in tree.children}


def boards(ray: bool) -> list[dict[str, Any]]:
    return [json.loads(text) for text in dashboards(ray).values()]


@pytest.mark.parametrize(("ray", "prefix"), [(False, OWN), (True, RAY)])
def test_every_query_asks_for_what_there_is(ray: bool, prefix: str):
    queries = [target["expr"] for board in boards(ray) for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 50
    assert [wrong for query in queries for wrong in wrong_in(query, prefix)] == []


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("sum (manta_queue_massages{})", "there is no manta_queue_massages"),
        ("sum by (broker) (manta_queue_messages{})", "manta_queue_messages has no label broker"),
        ('manta_queue_messages{reason="ring"}', "manta_queue_messages has no label reason"),
        ("rate(manta_queue_messages{}[5m])", "there is no rate of it"),
        ("manta_queue_enqueued_total{}", "only its rate"),
        ("max (manta_cluster_healthy{}) / sum by (x) (manta_queue_messages{})", "no label x"),
        ("sum (manta_queue_messages{}", "is no query"),
        ("sum manta_queue_messages{})", "is no query"),
        ("topk(manta_queue_messages{})", "is no query"),
        ("histogram_quantile(0.9, manta_queue_messages{})", "is no query"),
    ],
)
def test_a_query_that_asks_for_what_is_not_there_is_found(query: str, wrong: str):
    assert any(wrong in one for one in wrong_in(query, OWN))


def test_rays_names_are_not_ours():
    assert wrong_in("max (manta_cluster_healthy{})", RAY)
    assert wrong_in("max (ray_manta_cluster_healthy{})", OWN)


@pytest.mark.parametrize("ray", [False, True])
def test_every_panel_has_a_unit_a_place_and_words(ray: bool):
    for board in boards(ray):
        placed: set[tuple[int, int]] = set()
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        for panel in board["panels"]:
            assert panel["fieldConfig"]["defaults"]["unit"] in GRAFANA_UNITS
            assert panel["title"] and panel["description"] and panel["targets"]
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert at["x"] + at["w"] <= WIDTH
            assert not placed & cells, panel["title"]
            placed |= cells


@pytest.mark.parametrize(("ray", "prefix"), [(False, OWN), (True, RAY)])
def test_dashboards_are_those_of_grafana_10_and_their_variables_are_there(ray: bool, prefix: str):
    assert list(dashboards(ray)) == ["manta-overview.json", "manta-queues.json", "manta-brokers.json"]
    for board in boards(ray):
        assert board["schemaVersion"] >= 38 and board["id"] is None
        variables = {one["name"]: one for one in board["templating"]["list"]}
        used = set(re.findall(r'"\$(\w+)"', json.dumps(board["panels"]).replace('\\"', '"')))
        assert used | {"datasource"} == set(variables)
        assert used <= {*OF_TARGETS, "queue"}
        for one in variables.values():
            if one["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", one["definition"]).groups()
                name, brace, rest = metric.partition("{")
                assert label == one["name"] and name.removeprefix(prefix) in KNOWN and name.startswith(prefix)
                assert label in {*KNOWN[name.removeprefix(prefix)].labels, *OF_TARGETS}
                assert all(variable in variables for variable in re.findall(r"\$(\w+)", brace + rest))


def test_the_two_kinds_can_be_in_one_grafana():
    uids = [board["uid"] for ray in (False, True) for board in boards(ray)]
    assert len(set(uids)) == len(uids) == 6


def test_a_panel_of_a_metric_that_is_not_there_is_not_made():
    with pytest.raises(KeyError):
        Query("queue_massages").promql(OWN)


def test_lines_of_two_units_have_no_panel():
    with pytest.raises(ValueError):
        _panel(1, Panel("both", (Query("queue_messages"), Query("queue_size_bytes"))), OWN)
