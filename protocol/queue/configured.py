"""What has become of a queue since it was declared, by policies that came, changed and went: part of its state."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec


class Configured(msgspec.Struct, array_like=True, frozen=True):
    """Attributes:
    index: of the event of the cluster's stream by which it is so; 0: it is as it was declared, and all else is empty.
    arguments, alternate: as of `Configure`.
    refused: how many messages it had refused before.
    judged: it has had a say in what becomes of transfers at any time since it was declared.
    letters: exchange to which what was set aside goes where there is no alternate any more.
    unaware: brokers that may not know yet that it has a say; those that are out of the stream count for nothing.
    """

    index: int = 0
    arguments: dict[str, Any] = {}
    alternate: str = ""
    refused: int = 0
    judged: bool = False
    letters: str = ""
    unaware: list[str] = []

    def anybody_unaware(self, absent: Container[str]) -> bool:
        """Whether a broker may send to the queue that does not know yet. `absent`: those that are out."""
        return bool(self.unaware) and not all(broker in absent for broker in self.unaware)
