"""The base of all events."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, array_like=True, frozen=True, tag_field="kind", tag=0):
    """Base of all events."""
