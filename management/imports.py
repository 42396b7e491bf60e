"""A definitions file, declared: what of it is new, what the cluster has already, and what it refuses."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..client.aio.aio import AsyncConnection
from ..client.definitions.comparison import DIFFERS, NEW, REFUSED, UNCHANGED, Comparison, Finding
from ..client.definitions.declarations import Declaration, name_of, what_of
from ..client.definitions.document import read_document
from ..client.definitions.reading import read_file
from ..client.errors import ConnectionLost, Exists, MantaError, Timeout
from ..protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from ..protocol.wire.pattern_events import PutPattern
from ..protocol.wire.policy_events import PutPolicy
from ..protocol.wire.redirect_events import Redirect
from ..protocol.wiring.node_patterns import EXCHANGE

LEFT_OUT = "not taken over"


class ImportedObject(NamedTuple):
    """One object of a file.

    Attributes:
        what: "queue", "exchange" and so on. name: its name.
        outcome: "new", "unchanged", "differs", "refused" or "not taken over"; why: in words.
        remarks: what of it was not taken over.
    """

    what: str
    name: str
    outcome: str
    why: str = ""
    remarks: tuple[str, ...] = ()


class Imported(NamedTuple):
    """What a file came to. Attributes: objects; passed_over: what else is in it and was not looked at -> how many."""

    objects: list[ImportedObject]
    passed_over: dict[str, int]

    @property
    def counts(self) -> dict[str, int]:
        """Outcome -> how many."""
        return dict(Counter(one.outcome for one in self.objects))

    @property
    def complete(self) -> bool:
        """Whether nothing was refused, and nothing that is there differs."""
        return not any(one.outcome in (DIFFERS, REFUSED) for one in self.objects)


async def import_into(connection: AsyncConnection, text: bytes, vhost: str = "") -> Imported:
    """Declare what a file has and the cluster has not, in an order that works. Raises as `Deeds.import_definitions`."""
    reading = read_file(text, vhost)
    known = Comparison(read_document(await connection.definitions()).declarations)
    objects: list[ImportedObject] = []
    for one, remarks in reading.wanted:
        finding = known.finding(one)
        if finding.outcome == NEW:
            finding = await _declared(connection, one)
        if finding.outcome in (NEW, UNCHANGED):
            known.note(one)
        objects.append(ImportedObject(what_of(one), name_of(one), finding.outcome, finding.why, remarks))
    objects += [ImportedObject(one.what, one.name, LEFT_OUT, one.why) for one in reading.left_out]
    return Imported(objects, reading.passed_over)


async def _declared(connection: AsyncConnection, one: Declaration) -> Finding:
    """Raises ConnectionLost, Timeout: whether the rest can be declared nobody knows."""
    try:
        new = await _declare(connection, one)
    except (ConnectionLost, Timeout):
        raise
    except Exists as refused:  # somebody else was faster
        return Finding(DIFFERS, refused.text)
    except MantaError as refused:
        return Finding(REFUSED, refused.text)
    return Finding(NEW if new else UNCHANGED)


async def _declare(connection: AsyncConnection, one: Declaration) -> bool:
    match one:
        case DeclareExchange():
            return await connection.declare_exchange(one.name, one.type, one.durable, one.alternate, one.arguments)
        case PutPolicy():
            return await connection.add_policy(
                one.name, one.pattern, priority=one.priority, operator=one.operator, alternate=one.alternate,
                arguments=one.arguments,
            )  # fmt: skip
        case PutPattern():
            made = {"durable": one.durable, "alternate": one.alternate, "arguments": one.arguments}
            exchange = made | {"type": one.type} if one.makes == EXCHANGE else None
            queue = None if one.makes == EXCHANGE else made
            return await connection.add_pattern(
                one.name, one.pattern, priority=one.priority, queue=queue, exchange=exchange
            )
        case DeclareQueue():
            return bool(await connection.declare_queue(one.name, one.durable, one.alternate, one.arguments))
        case Redirect():
            return await connection.redirect_queue(one.source, one.target)
        case Bind():
            bind = connection.bind_exchange if one.to_exchange else connection.bind
            return await bind(one.exchange, one.to_exchange or one.queue, one.key, one.arguments)
