"""A copy of plain values (`protocol/wire/plain.py`), for what may be sent again later."""

from __future__ import annotations

from typing import Any

import msgspec

from ...protocol.errors import PeerError
from ...protocol.wire.plain import check
from ..errors import Invalid

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def copied(value: dict[str, Any], what: str) -> dict[str, Any]:
    """A copy that nobody else can change: it may be sent again later.

    Raises:
        Invalid: it is not plain.
    """
    if type(value) is not dict:
        raise Invalid(f"{what} are a dict of str to plain values, not {type(value).__name__}")
    try:
        check(value, what)
        return _decode(_encode(value))
    except PeerError as problem:
        raise Invalid(problem.text) from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise Invalid(f"{what} cannot be sent: {problem}") from None
