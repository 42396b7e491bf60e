"""Bugs of connections that an operator closes, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.connections import Connections
from mantamq.protocol.errors import UNAVAILABLE

from .planting import planted

Patch = pytest.MonkeyPatch


def who_is_closed_comes_back(patch: Patch) -> None:
    """As one whose broker ends: it looks for another."""

    def softly(self: Any, client: str, reason: str) -> bool:
        session = self._clients.get(client)
        if session is not None:
            self._end(session, UNAVAILABLE, f"this connection was closed by an operator: {reason}")
        return session is not None

    patch.setattr(Connections, "dismiss", softly)


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
