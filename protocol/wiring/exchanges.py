"""One exchange and its bindings: the queues that a message finds there, by the rule of the exchange's type.

A *direct* exchange compares the key, a *topic* one matches it against patterns, *headers* looks at the message's
properties, and *fanout* takes every binding. The index by key is built when it is first needed, and dropped when a
binding comes or goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ..errors import INVALID, PeerError
from ..wire.settings import read
from .definitions import Binding, ExchangeDefinition, canonical
from .settings import ExchangeSettings
from .topics import TopicIndex

MATCHES = ("all", "any", "all-with-x", "any-with-x")
WITH_X = MATCHES[2:]
"""Values of x-match by which headers that begin with x- take part."""
Place = tuple[str, str, bytes]
"""What tells the bindings of an exchange from each other: queue name, key, arguments."""


PLAIN = ExchangeSettings()
RELAYS = "manta.exchange."
"""How the names of queues begin that exchanges have for themselves."""


class LooksAtHeaders(Exception):
    """Where a message goes is not known by its key alone."""


def place_of(binding: Binding) -> Place:
    return binding.queue, binding.key, canonical(binding.arguments)


@dataclass(slots=True)
class Exchange:
    """Attributes: links: the exchanges that are bound to it, found as queues are: in these bindings a queue's name is
    an exchange's. None: there are none.
    relay: name of the queue that all goes through first (`relays.py`), "" for none.
    since: the index of the cluster stream at which it was declared. made: at which each binding was made; 0 where a
    program before minor 10 did it. newest: the highest of a binding that there has been."""

    definition: ExchangeDefinition
    bindings: dict[Place, Binding] = field(default_factory=dict)
    links: Exchange | None = None
    settings: ExchangeSettings = PLAIN
    relay: str = ""
    since: int = 0
    made: dict[Place, int] = field(default_factory=dict)
    newest: int = 0
    _direct: dict[str, list[str]] | None = None  # key -> queue names
    _topics: TopicIndex | None = None

    def __post_init__(self) -> None:
        if self.definition.arguments:
            self.settings = read(ExchangeSettings, self.definition.arguments)
            if self.settings.relays:
                self.relay = RELAYS + self.definition.name

    def bind(self, binding: Binding, index: int = 0) -> bool:
        """Whether it is a new one. Args: index: of the event that makes it."""
        place = place_of(binding)
        if place in self.bindings:
            return False
        self.bindings[place] = binding
        self.made[place] = index
        self.newest = max(self.newest, index)
        self._changed()
        return True

    def unbind(self, queue: str, key: str | None = None) -> bool:
        """Take out the bindings of the queue with that name: those with `key`, or all. Whether there were any."""
        gone = [place for place in self.bindings if place[0] == queue and key in (None, place[1])]
        for place in gone:
            del self.bindings[place], self.made[place]
        if gone:
            self._changed()
        return bool(gone)

    def _changed(self) -> None:
        self._direct = None
        self._topics = None

    def link(self, binding: Binding, index: int = 0) -> bool:
        """Bind an exchange, as `bind` does a queue."""
        if self.links is None:
            self.links = Exchange(self.definition)
        return self.links.bind(binding, index)

    def unlink(self, exchange: str, key: str | None = None) -> bool:
        """As `unbind`, of an exchange."""
        if self.links is None or not self.links.unbind(exchange, key):
            return False
        if not self.links.bindings:
            self.links = None
        return True

    def at(self, key: str) -> list[tuple[bool, Place]]:
        """The bindings with that key: whether they are to exchanges, and their places."""
        linked = self.links.bindings if self.links is not None else {}
        every = [(False, place) for place in self.bindings] + [(True, place) for place in linked]
        return sorted(one for one in every if one[1][1] == key)

    def has_newer(self, index: int) -> bool:
        """Whether it may have bindings that were made behind that index."""
        return self.newest > index or (self.links is not None and self.links.has_newer(index))

    def as_of(self, index: int) -> Exchange:
        """The same without those."""
        older = {place: binding for place, binding in self.bindings.items() if self.made[place] <= index}
        links = self.links.as_of(index) if self.links is not None else None
        return Exchange(self.definition, older, links if links is not None and links.bindings else None)

    def clear(self, key: str) -> None:
        """Take out all bindings with that key."""
        for to_exchange, (name, _, _) in self.at(key):
            (self.unlink if to_exchange else self.unbind)(name, key)

    def bound(self, key: str, headers: dict[str, Any] | None) -> list[str]:
        """Names of the queues a message goes to; one may stand there several times.

        Raises:
            LooksAtHeaders: that depends on the message's headers, and they were not given.
        """
        bindings = self.bindings.values()
        match self.definition.type:
            case "fanout":
                return [binding.queue for binding in bindings]
            case "direct":
                if self._direct is None:
                    self._direct = {}
                    for binding in bindings:
                        self._direct.setdefault(binding.key, []).append(binding.queue)
                return self._direct.get(key, [])
            case "topic":
                if self._topics is None:
                    self._topics = TopicIndex()
                    for binding in bindings:
                        self._topics.add(binding.key, binding.queue)
                return self._topics.match(key)
            case _:
                if headers is None:
                    raise LooksAtHeaders
                return [binding.queue for binding in bindings if _headers_match(binding.arguments, headers)]


def check_match(value: Any) -> None:
    """Raises PeerError: `invalid`, x-match of a headers exchange does not take that value."""
    if value in MATCHES:
        return
    near = get_close_matches(value, MATCHES, 1) if isinstance(value, str) else []
    meant = f": did you mean {near[0]!r}?" if near else ""
    raise PeerError(INVALID, f"x-match is {', '.join(MATCHES[:-1])} or {MATCHES[-1]}, not {value!r:.60}{meant}")


def check_exclusive(type: str) -> None:
    """Raises PeerError: `invalid`, bindings at exchanges of this type cannot be exclusive."""
    if type != "direct":
        raise PeerError(
            INVALID, f"qpid.exclusive-binding is of direct exchanges, and this is a {type} one: leave it out"
        )


def _headers_match(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    """x-match all (the default) or any; arguments that begin with x- take no part, unless it ends with -with-x; a null
    value asks for presence."""
    match = arguments.get("x-match", "all")
    aside = ("x-match",) if match in WITH_X else [name for name in arguments if name.startswith("x-")]
    wanted = {name: value for name, value in arguments.items() if name not in aside}
    hits = (name in headers and (value is None or headers[name] == value) for name, value in wanted.items())
    return any(hits) if match in ("any", "any-with-x") else all(hits)
