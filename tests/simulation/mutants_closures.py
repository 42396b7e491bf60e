"""Bugs of connections that an operator closes, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books import conversation
from mantamq.protocol.broker.connections import Connections
from mantamq.protocol.errors import IN_USE, UNAVAILABLE
from mantamq.protocol.wire.link_frames import Refused

from .planting import planted

Patch = pytest.MonkeyPatch


def _ended_with(patch: Patch, code: str) -> None:
    """Whom an operator closes its broker ends for another reason, in the operator's words."""

    def dismiss(self: Any, client: str, reason: str) -> bool:
        session = self._clients.get(client)
        if session is not None:
            reason = reason[:500] or "no reason given"
            self._end(session, code, f"this connection was closed by an operator: {reason}")
        return session is not None

    patch.setattr(Connections, "dismiss", dismiss)


def who_is_closed_comes_back(patch: Patch) -> None:
    """As one whose broker ends: it looks for another."""
    _ended_with(patch, UNAVAILABLE)


def who_is_closed_is_told_no_reason(patch: Patch) -> None:
    dismiss = Connections.dismiss
    patch.setattr(Connections, "dismiss", lambda self, client, reason: dismiss(self, client, ""))


def who_is_closed_is_told_the_reason_of_another(patch: Patch) -> None:
    """The first that its broker was given."""
    dismiss = Connections.dismiss
    first: dict[str, str] = {}

    def with_the_first(self: Any, client: str, reason: str) -> bool:
        return dismiss(self, client, first.setdefault(self._cluster_state.broker, reason))

    patch.setattr(Connections, "dismiss", with_the_first)


def who_is_closed_is_told_the_code_of_who_is_replaced(patch: Patch) -> None:
    _ended_with(patch, IN_USE)


def the_program_that_is_closed_hears_only_that(patch: Patch) -> None:
    """Its books keep to themselves what the broker said."""
    refused = conversation._RULES[Refused]

    def briefly(self: Any, frame: Refused) -> None:
        if self.opened is not None and "by an operator" in frame.text:
            self.lost_because("the connection is closed")
        else:
            refused(self, frame)

    patch.setitem(conversation._RULES, Refused, briefly)


def somebody_else_is_closed(patch: Patch) -> None:
    dismiss = Connections.dismiss
    patch.setattr(Connections, "dismiss", lambda self, client, reason: dismiss(self, next(iter(self._clients)), reason))


def who_is_to_be_closed_is_not_found(patch: Patch) -> None:
    """It has come back since, and the broker knows the client by its first connection."""
    dismiss = Connections.dismiss

    def first(self: Any, client: str, reason: str) -> bool:
        session = self._clients.get(client)
        return session is not None and "~" not in session.peer and dismiss(self, client, reason)

    patch.setattr(Connections, "dismiss", first)


ALL = planted(globals())
