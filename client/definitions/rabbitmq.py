"""RabbitMQ's definitions file (`rabbitmqctl export_definitions`), and what of it means the same here.

Nothing is dropped without a word: what is not taken over of an object is among its remarks, an object that is not
taken over at all is left out with the reason, and what is none of these, nor a policy, is counted. Exchanges that both
have from the beginning are passed over.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

from msgspec.structs import replace

from ...protocol.broker.command_arguments import AddPolicyArguments
from ...protocol.broker.policy_commands import policy_of
from ...protocol.errors import PeerError
from ...protocol.queue.declared import declared
from ...protocol.queue.settings import DEAD_LETTER, RING, QueueSettings
from ...protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from ...protocol.wire.settings import names_of, parse
from ...protocol.wiring.arguments import OURS, SHAPES, check
from ...protocol.wiring.definitions import STANDARD, TYPES, standard
from ...protocol.wiring.exchanges import WITH_X
from ..errors import Invalid
from .declarations import LeftOut, Reading, Step, by_alternate, exclusive_first, label
from .fields import FileObject, Once

MARKS = ("rabbit_version", "rabbitmq_version", "vhosts")
"""A file of RabbitMQ's has one of these."""
OBJECTS = ("queues", "exchanges", "bindings", "policies")
PREDECLARED = frozenset(one.name for one in STANDARD)
Declared = TypeVar("Declared", DeclareExchange, DeclareQueue)
REPLICATED = ("classic", "quorum")
"""Types of queues that are the same here: all are replicated."""
NO_POLICY = "policies do not set it here: give it to the queues"
NO_DEFAULT = "the default exchange is nobody's alternate here"
BY_ITS_NAME = "dead letters go there by the queue's name as their key, not by their own"
DEAD_LETTER_KEY = "x-dead-letter-routing-key"
WHY = {
    "x-queue-type": "every queue is replicated here",
    "x-queue-mode": "messages stay in memory here",
}
"""Argument of a queue that is not taken over -> why; others mean nothing here."""
OF_QUEUES = ("queues", "all", "classic_queues", "quorum_queues")
"""What a policy may be applied to that is taken over."""
IN_POLICIES = (
    "max-length", "max-length-bytes", "overflow", "message-ttl", "expires", "delivery-limit", "dead-letter-routing-key",
    "delayed-retry-type", "delayed-retry-min", "delayed-retry-max",
)  # fmt: skip
"""What a policy sets that means the same here, with x- before it."""


def read_rabbitmq(document: Any, vhost: str) -> Reading:
    """What is in one virtual host of a file.

    Raises:
        Invalid: it cannot be read, or has no such virtual host; the text says where, and what to do.
    """
    whole = FileObject(document)
    passed_over = {name: size for name, size in whole.lists().items() if size and name not in (*OBJECTS, "vhosts")}
    here, elsewhere = _of(whole, vhost)
    file = _File()
    exchanges = file.exchanges(here["exchanges"])
    queues = [found for one in here["queues"] if (found := file.queue(one)) is not None]
    bindings = [found for one in here["bindings"] if (found := file.binding(one)) is not None]
    policies = [found for one in here["policies"] if (found := file.policy(one)) is not None]
    return Reading(exchanges + policies + queues + exclusive_first(bindings), file.left_out, passed_over | elsewhere)


def _of(whole: FileObject, vhost: str) -> tuple[dict[str, list[FileObject]], dict[str, int]]:
    """The objects of a virtual host (those that name none are of whichever is asked for), and how many others have."""
    here: dict[str, list[FileObject]] = {name: [] for name in OBJECTS}
    known = {one.text("name") for one in whole.objects("vhosts")}
    others: Counter[str] = Counter()
    for name in OBJECTS:
        for one in whole.objects(name):
            home = one.text("vhost", vhost)
            known.add(home)
            if home == vhost:
                here[name].append(one)
            else:
                others[f"{name} of virtual host {home}"] += 1
    if known and vhost not in known:
        names = ", ".join(sorted(known))
        raise Invalid(f"vhosts: there is no virtual host {vhost!r} in this file: choose with --vhost among {names}")
    return here, dict(others)


class _File:
    """What is found in the objects of a file, which come in this order: exchanges, queues, bindings.

    Attributes: left_out: as in `Reading`.
    """

    def __init__(self) -> None:
        self.left_out: list[LeftOut] = []
        self._names = {"exchange": Once("exchange"), "queue": Once("queue")}
        self._here: dict[str, set[str]] = {"exchange": set(PREDECLARED), "queue": set()}
        self._gone: dict[str, set[str]] = {"exchange": set(), "queue": set()}

    def exchanges(self, objects: list[FileObject]) -> list[Step]:
        """In an order that alternates allow."""
        found: dict[str, DeclareExchange] = {}
        remarks: dict[str, list[str]] = {}
        for fields in objects:
            if (one := self._exchange(fields, remarks)) is not None:
                found[one.name] = one
        for name, one in found.items():  # all are known now
            found[name] = self._with_alternate(one, "alternate-exchange", remarks[name])
        while True:
            ordered, ring = by_alternate(list(found.values()))
            if not ring:
                return [Step(one, tuple(remarks[one.name])) for one in ordered]
            name, alternate = ring[-2:]
            remarks[name].append(f"alternate-exchange={alternate!r}: a ring of alternates, {' -> '.join(ring)}")
            found[name] = replace(found[name], alternate="")

    def _exchange(self, one: FileObject, remarks: dict[str, list[str]]) -> DeclareExchange | None:
        name, type, arguments = one.text("name"), one.text("type"), one.arguments(marks=False)
        durable, internal, auto_delete = (one.flag(flag) for flag in ("durable", "internal", "auto_delete"))
        if name in PREDECLARED:
            return None
        self._take("exchange", one)
        if standard(name):
            return self._leave("exchange", name, "names that begin with amq. are the standard's, not this one")
        if type not in TYPES:
            return self._leave("exchange", name, f"its type is {type}, and here they are {', '.join(TYPES)}")
        given, alternate = "alternate-exchange" in arguments, _text(arguments, "alternate-exchange", one)
        kept, said = _kept("exchange", arguments)
        if given and not alternate:
            said.append(f"alternate-exchange='': {NO_DEFAULT}")
        kept |= {"manta.internal": True} if internal else {}
        kept |= {"manta.auto_delete": True} if auto_delete else {}
        remarks[name] = said
        return DeclareExchange(name, type, kept, durable, alternate) if self._valid("exchange", name, kept) else None

    def queue(self, one: FileObject) -> Step | None:
        self._take("queue", one)
        name, arguments, auto_delete = one.text("name"), one.arguments(marks=False), one.flag("auto_delete")
        durable, type = one.flag("durable"), arguments.get("x-queue-type", one.text("type", "classic"))
        if type not in REPLICATED:
            return self._leave("queue", name, f"its type is {type}, and here they are as {' and '.join(REPLICATED)}")
        at = "x-dead-letter-exchange"
        given, alternate = at in arguments, _text(arguments, at, one)
        kept, remarks = _kept("queue", arguments)
        if "x-overflow" in kept and not parse(QueueSettings, "queue", kept).limited:
            remarks.append(f"x-overflow={kept.pop('x-overflow')!r}: without a limit nothing happens at it")
        kept |= {"manta.auto_delete": True} if auto_delete else {}
        remarks += _without_backoff(arguments, kept)
        if given and not alternate:
            remarks.insert(0, f"{at}={alternate!r}: {NO_DEFAULT}")
        elif given and DEAD_LETTER_KEY not in kept:
            remarks.insert(0, f"{at}={alternate!r}: {BY_ITS_NAME}")
        if not self._valid("queue", name, kept):
            return None
        wanted = self._with_alternate(DeclareQueue(name, kept, durable, alternate), at, remarks)
        return Step(replace(wanted, arguments=_lettered(kept, wanted.alternate, remarks)), tuple(remarks))

    def policy(self, one: FileObject) -> Step | None:
        name, pattern, target = one.name_of("policy"), one.text("pattern"), one.text("apply-to", "all")
        if target not in OF_QUEUES:
            return self._leave("policy", name, f"it is applied to {target}, and here policies are of queues")
        definition = one.within("definition")
        alternate = _text(definition, "dead-letter-exchange", one)
        kept, remarks = _kept("queue", {f"x-{key}": value for key, value in definition.items()})
        others = [key for key in kept if key.removeprefix("x-") not in IN_POLICIES]
        remarks += [f"{key}={kept.pop(key)!r}: {NO_POLICY}" for key in others]
        remarks = [said.removeprefix("x-") for said in remarks]
        if alternate in self._gone["exchange"]:
            remarks.append(f"dead-letter-exchange={alternate!r}: that exchange is not taken over")
            alternate = ""
        if "x-overflow" in kept and not parse(QueueSettings, "queue", kept).limited:
            remarks.append(f"overflow={kept.pop('x-overflow')!r}: without a limit nothing happens at it")
        if not kept and not alternate:
            return self._leave("policy", name, "; ".join(["nothing of it means the same here", *remarks]))
        priority = one.number("priority") if one.has("priority") else 0
        given = kept | ({"x-dead-letter-exchange": alternate} if alternate else {})
        try:
            return Step(policy_of(AddPolicyArguments(name, pattern, given, priority)), tuple(remarks))
        except PeerError as problem:
            return self._leave("policy", name, problem.text)

    def binding(self, one: FileObject) -> Step | None:
        exchange, to, key = one.text("source"), one.text("destination"), one.text("routing_key", "")
        what = one.text("destination_type")
        if what not in self._here:
            raise Invalid(f"{one.path('destination_type')} is {what!r}: give queue or exchange")
        arguments = one.arguments(marks=False)
        if not exchange:
            return None  # the default exchange has every queue, here as there
        ends = (("exchange", exchange), (what, to))
        for kind, name in ends:
            if name in self._gone[kind] or (kind == "exchange" and standard(name) and name not in PREDECLARED):
                return self._leave("binding", label(exchange, to, key), f"{kind} {name!r} is not taken over")
        kept, remarks = _kept("binding", arguments)
        for kind, name in ends:
            if name not in self._here[kind]:
                why = ", as internal ones are in those of rabbitmqctl" if kind == "exchange" else ""
                remarks.append(f"{kind} {name!r} is not in the file{why}: declare it")
        queue, to_exchange = (to, "") if what == "queue" else ("", to)
        return Step(Bind(exchange, queue, key, kept, to_exchange), tuple(remarks))

    def _take(self, what: str, one: FileObject) -> None:
        name = one.name_of(what)
        self._names[what].take(name, one.where)
        self._here[what].add(name)

    def _leave(self, what: str, name: str, why: str) -> None:
        if what in self._gone:
            self._gone[what].add(name)
        self.left_out.append(LeftOut(what, name, why))

    def _valid(self, what: str, name: str, arguments: dict[str, Any]) -> bool:
        """Each argument has a meaning here; whether all together have one, too."""
        try:
            check(what, arguments)
        except PeerError as problem:
            self._leave(what, name, problem.text)
            return False
        return True

    def _with_alternate(self, one: Declared, argument: str, remarks: list[str]) -> Declared:
        """The same without an alternate that is not taken over."""
        if one.alternate not in self._gone["exchange"]:
            return one
        remarks[:] = [said for said in remarks if not said.startswith(argument)]
        remarks.append(f"{argument}={one.alternate!r}: that exchange is not taken over")
        return replace(one, alternate="")


def _lettered(arguments: dict[str, Any], alternate: str, remarks: list[str]) -> dict[str, Any]:
    """A queue's arguments with what they mean where it has that alternate: what a limit pushes out goes there, too.
    Where it has none, there is no key for it."""
    if not alternate:
        if (key := arguments.get(DEAD_LETTER_KEY)) is not None:
            remarks.append(f"{DEAD_LETTER_KEY}={key!r}: there is no alternate exchange to which it leads")
        return {name: value for name, value in arguments.items() if name != DEAD_LETTER_KEY}
    if declared(arguments).overflow != RING:
        return arguments
    rest = {name: value for name, value in arguments.items() if name != "x-overflow"}
    return rest | {"qpid.policy_type": DEAD_LETTER}


def _without_backoff(arguments: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """Take out of what is kept of a queue's arguments how long what comes back waits, where in RabbitMQ it does not, or
    only what does not count as a delivery. Returns what is said of that."""
    when = arguments.get("x-delayed-retry-type", "disabled")
    if when in ("failed", "all") and "x-delayed-retry-min" in kept:
        return []
    names = [name for name in kept if name.startswith("x-delayed-retry-")]
    return [f"{name}={kept.pop(name)!r}: nothing waits, with x-delayed-retry-type={when!r}" for name in names]


def _text(arguments: dict[str, Any], name: str, one: FileObject) -> str:
    """Take a text out of the arguments, "" where there is none."""
    value = arguments.pop(name, "")
    if not isinstance(value, str):
        raise Invalid(f"{one.path('arguments')}.{name} is {value!r:.60}: give a text")
    return value


def _kept(what: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The arguments that mean something here or are the user's own, and what is said of the others."""
    kept: dict[str, Any] = {}
    remarks: list[str] = []
    known = names_of(SHAPES[what])
    theirs = what == "binding" and arguments.get("x-match") in WITH_X
    for name, value in arguments.items():
        if not name.startswith(OURS) or (theirs and name.startswith("x-")):
            kept[name] = value
        elif name not in known:
            remarks.append(f"{name}={value!r:.40}: {WHY.get(name, 'it means nothing here')}")
        else:
            try:
                parse(SHAPES[what], what, {name: value})
                kept[name] = value
            except PeerError as problem:
                remarks.append(problem.text)
    return kept, remarks
