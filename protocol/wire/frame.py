"""The base of all frames: a kind (in the header, see `kinds.py`) and a msgpack array of its fields."""

from __future__ import annotations

import msgspec


class Frame(msgspec.Struct, array_like=True, frozen=True):
    """Base of all frames. Its kind is in `kinds.KINDS`."""
