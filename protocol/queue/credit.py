"""A consumer's credit: the messages and bytes that its broker may send; bytes may be without limit."""

from __future__ import annotations

UNLIMITED = -1


class CreditBalance:
    """Credit of one subscription. `messages` left; `bytes` left or UNLIMITED."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = UNLIMITED

    def grant(self, messages: int, bytes_: int) -> None:
        """Add credit. A number of bytes bounds the credit from then on; UNLIMITED lifts the bound again."""
        self.messages += messages
        if bytes_ == UNLIMITED:
            self.bytes = UNLIMITED
        else:
            self.bytes = bytes_ + max(self.bytes, 0)

    def take(self, messages: int, bytes_: int) -> None:
        self.messages -= messages
        if self.bytes != UNLIMITED:
            self.bytes -= bytes_

    def stop(self) -> None:
        self.messages = 0
