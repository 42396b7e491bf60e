"""The owner's side of the consume lock: when to hand it over (`design.md` section 5).

The owner keeps the lock while no other broker wants it. Once `Ownership` has named the next owner, it hands over when
its consumers have no credit, or when its time slice has run *and* it has delivered something in it: an empty contended
queue has no hand-over traffic. The hand-over is an `own` event of the owner's, behind all its acquires in the same
stream, so the next owner never meets a message that is already on its way to a consumer.
"""

from __future__ import annotations

from ..timing import DEFAULT_TIMING, Timing


class LockHolder:
    """One queue's lock as one broker knows it.

    Attributes:
        held: this broker is the owner (by the applied log) and has not begun to hand over.
        grant: the current grant, by the applied log.
    """

    __slots__ = ("_idle_ms", "_idle_since", "_next", "_next_grant", "_slice_end", "_slice_ms", "_used", "grant", "held")

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self._idle_ms = timing.lock_idle_ms
        self.held = False
        self.grant = 0
        self._used = False
        self._slice_end = 0
        self._slice_ms = 0
        self._next = ""
        self._next_grant = 0
        self._idle_since = 0

    def granted(self, grant: int, now_ms: int) -> None:
        """An own event that names this broker has taken effect."""
        self.held = True
        self.grant = grant
        self._used = False
        self._slice_end = now_ms
        self._slice_ms = 0
        self._idle_since = 0

    def passed(self, grant: int) -> None:
        """Another broker holds the lock now, or none."""
        self.held = False
        self.grant = grant

    def refused(self) -> None:
        """This broker's hand-over was void, since the named broker is out: it goes on until another is named."""
        self.held = True
        self._next = ""

    def contended(self, grant: int, next_owner: str, slice_ms: int) -> None:
        """Ownership names the next owner; "" when no broker waits any more."""
        self._next = next_owner
        self._next_grant = grant
        if slice_ms != self._slice_ms:
            self._slice_end += slice_ms - self._slice_ms
            self._slice_ms = slice_ms

    def used(self) -> None:
        """A message was delivered under this grant."""
        self._used = True

    def decide(self, now_ms: int, wants: bool, consumers: bool) -> tuple[str | None, int]:
        """Whether to give the lock up now.

        Args:
            wants: a consumer here has credit.
            consumers: there are acquiring subscriptions here at all.

        Returns:
            (the next owner: a broker, "" to give the lock up, None to keep it; when to ask again in ms, 0 for never).
        """
        next_owner = self._next if self._next_grant == self.grant else ""
        if next_owner:
            if not wants:
                return next_owner, 0
            if now_ms >= self._slice_end:
                return (next_owner, 0) if self._used else (None, 0)
            return None, self._slice_end
        if wants:
            self._idle_since = 0
            return None, 0
        if not consumers:
            return "", 0
        if not self._idle_since:
            self._idle_since = now_ms
        if now_ms - self._idle_since >= self._idle_ms:
            return "", 0
        return None, self._idle_since + self._idle_ms
