"""The definitions file of this project: made of a broker's answer, and read.

{"manta": 1, "exchanges": [...], "queues": [...], "bindings": [...]}, and "policies", "patterns" and "redirects" where
there are any: equal wirings have equal documents, in the order of their names, so what differs between two of them has
been changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from ...protocol.wire.pattern_events import PutPattern
from ...protocol.wire.policy_events import PutPolicy
from ...protocol.wire.redirect_events import Redirect
from ...protocol.wiring.definitions import canonical
from ..errors import Invalid
from .declarations import Reading, Step, by_alternate, exclusive_first
from .fields import FileObject, Once
from .values import to_json

FORMAT = 2
"""Of the documents that this version reads: 2 has policies, patterns, redirects; one without any is written as 1."""
MARK = "manta"
FIELDS = {
    "exchanges": ("name", "type", "durable", "alternate", "arguments"),
    "policies": ("name", "pattern", "operator", "priority", "alternate", "arguments"),
    "patterns": ("name", "pattern", "makes", "type", "priority", "durable", "alternate", "arguments"),
    "queues": ("name", "durable", "alternate", "arguments"),
    "bindings": ("exchange", "queue", "to_exchange", "key", "arguments"),
    "redirects": ("source", "target"),
}
"""What each list's objects have, in the order in which they are written."""
SOMETIMES = ("policies", "patterns", "redirects")


def document_of(answer: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The document of what a broker has told, of values that JSON has."""
    document: dict[str, Any] = {MARK: FORMAT if any(answer.get(what) for what in SOMETIMES) else 1}
    for what, fields in FIELDS.items():
        if what in SOMETIMES and not answer.get(what):
            continue
        rows = sorted(answer[what], key=_place)
        document[what] = [{name: to_json(row[name]) for name in fields if name in row} for row in rows]
    return document


def _place(row: Mapping[str, Any]) -> tuple[str, str, str, str, bytes]:
    names = (str(row.get(name, "")) for name in ("name", "source", "exchange", "to_exchange", "queue", "key"))
    own, source, exchange, to_exchange, queue, key = names
    return own or source or exchange, to_exchange, queue, key, canonical(row.get("arguments", {}))


def text_of(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read_document(document: Any) -> Reading:
    """A document as declarations.

    Raises:
        Invalid: it is none, or of a newer format; the text says where, and what to do.
    """
    whole = FileObject(document)
    if (version := whole.number(MARK)) > FORMAT or version < 1:
        raise Invalid(
            f"{MARK} is {version}: this version of mantamq reads format 1 to {FORMAT}, import it with the one that "
            "wrote it, or a later one"
        )
    whole.only(MARK, *FIELDS)
    exchanges, queues = Once("exchange"), Once("queue")
    declared = [_exchange(one, exchanges) for one in whole.objects("exchanges")]
    ordered, ring = by_alternate(declared)
    if ring:
        way = " -> ".join(ring)
        raise Invalid(f"exchanges: their alternates are a ring, {way}, and each comes before who has it: leave one out")
    wanted = [Step(one) for one in ordered]
    policies, patterns = Once("policy"), Once("pattern")
    wanted += [Step(_policy(one, policies)) for one in whole.objects("policies")]
    wanted += [Step(_pattern(one, patterns)) for one in whole.objects("patterns")]
    wanted += [Step(_queue(one, queues)) for one in whole.objects("queues")]
    wanted += exclusive_first([Step(_binding(one)) for one in whole.objects("bindings")])
    redirected = Once("redirect")
    return Reading(wanted + [Step(_redirect(one, redirected)) for one in whole.objects("redirects")])


def _exchange(one: FileObject, seen: Once) -> DeclareExchange:
    one.only(*FIELDS["exchanges"])
    name = one.name_of("exchange")
    seen.take(name, one.where)
    return DeclareExchange(name, one.text("type"), one.arguments(), one.flag("durable"), one.text("alternate", ""))


def _policy(one: FileObject, seen: Once) -> PutPolicy:
    one.only(*FIELDS["policies"])
    name, operator = one.name_of("policy"), one.flag("operator")
    seen.take(f"{name} (operator)" if operator else name, one.where)
    priority = one.number("priority") if one.has("priority") else 0
    return PutPolicy(name, one.text("pattern"), one.arguments(), priority, operator, one.text("alternate", ""))


def _pattern(one: FileObject, seen: Once) -> PutPattern:
    one.only(*FIELDS["patterns"])
    name = one.name_of("pattern")
    seen.take(name, one.where)
    said = one.flag("durable"), one.text("alternate", ""), one.text("type", "")
    priority = one.number("priority") if one.has("priority") else 0
    return PutPattern(name, one.text("pattern"), one.text("makes"), one.arguments(), *said, priority)


def _queue(one: FileObject, seen: Once) -> DeclareQueue:
    one.only(*FIELDS["queues"])
    name = one.name_of("queue")
    seen.take(name, one.where)
    return DeclareQueue(name, one.arguments(), one.flag("durable"), one.text("alternate", ""))


def _redirect(one: FileObject, seen: Once) -> Redirect:
    one.only(*FIELDS["redirects"])
    source = one.name_of("queue", "source")
    seen.take(source, one.where)
    return Redirect(source, one.name_of("queue", "target"))


def _binding(one: FileObject) -> Bind:
    one.only(*FIELDS["bindings"])
    if one.has("queue") == one.has("to_exchange"):
        raise Invalid(f"{one.where} leads to a queue or to an exchange: give one of queue and to_exchange")
    to_exchange = one.name_of("exchange", "to_exchange") if one.has("to_exchange") else ""
    queue = "" if to_exchange else one.name_of("queue", "queue")
    return Bind(one.name_of("exchange", "exchange"), queue, one.text("key", ""), one.arguments(), to_exchange)
