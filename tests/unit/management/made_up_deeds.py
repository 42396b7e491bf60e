"""Deeds that only note what they were asked for."""

from __future__ import annotations

from typing import Any

from mantamq.client.moves import Moved
from mantamq.management.imports import Imported, ImportedObject
from mantamq.management.messages import MessageSeen

from .made_up_view import HOSTILE

EVIL = "<script>alert(1)</script>"


def message(position: int, body: bytes, **properties: Any) -> MessageSeen:
    return MessageSeen("orders", position, EVIL, properties, body, len(body) + 9, False, 2, 1_764_000_000.0, {})


class MadeUpDeeds:
    """As `Deeds`.

    Args:
        wrong: what all of them raise, instead.
    """

    def __init__(self, wrong: Exception | None = None) -> None:
        self.wrong = wrong
        self.asked: list[str] = []
        self.done: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        async def deed(who: Any, *values: Any, **named: Any) -> Any:
            self.done.append((name, who.name, values, named))
            if self.wrong is not None:
                raise self.wrong
            return Moved(7, 2) if name in ("move", "redrive") else 1234

        return deed

    async def browse(self, *values: Any) -> list[MessageSeen]:
        self.done.append(("browse", "", values, {}))
        return [message(1, b"<b>plain</b>", content_type=EVIL), message(2, b"\xff\x00\x01", headers={"x": EVIL})]

    async def get(self, who: Any, *values: Any) -> list[MessageSeen]:
        self.done.append(("get", who.name, values, {}))
        return [message(1, b"<b>plain</b>")]

    async def import_definitions(self, who: Any, text: bytes, vhost: str) -> Imported:
        self.done.append(("import_definitions", who.name, (text, vhost), {}))
        if self.wrong is not None:
            raise self.wrong
        told = [("queue", "a", "new"), ("queue", EVIL, "differs", EVIL), ("exchange", "e", "unchanged", "", (EVIL,))]
        return Imported([ImportedObject(*one) for one in told], {"users": 2})

    async def bindings(self) -> list[dict[str, Any]]:
        to = [{"exchange": "events", "queue": name, "key": EVIL, "arguments": {}} for name in ("orders", *HOSTILE)]
        return self._told("bindings", [*to, {"exchange": "events", "to_exchange": "a/b", "queue": "", "key": "k"}])

    async def policies(self) -> list[dict[str, Any]]:
        settings = {"max_count": 1000, "dead_letter_key": EVIL}
        policy = {"name": "defaults", "pattern": "^orders", "priority": 0, "operator": False}
        most = {"name": EVIL, "pattern": "^<b>", "priority": 3, "operator": True}
        return self._told("policies", [policy | {"settings": {"max_count": 100_000}}, most | {"settings": settings}])

    async def definitions(self) -> dict[str, Any]:
        return self._told("definitions", {"queues": [{"name": EVIL}]})

    def _told(self, what: str, told: Any) -> Any:
        self.asked.append(what)
        if self.wrong is not None:
            raise self.wrong
        return told
