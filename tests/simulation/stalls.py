"""A sender of which nothing completes is told so: in time, not early, and only of messages that are not complete.

Times and numbers are counted here, from what was put and from what was heard on the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mantamq.client.errors import Unavailable

from .model import Violation, each

if TYPE_CHECKING:
    from .boxes import Outbox


class Stall:
    """Watches one sender.

    Args:
        limit_s: its time-out; None for none.
    """

    def __init__(self, outbox: Outbox, limit_s: float | None) -> None:
        self.outbox = outbox
        self.limit_s = limit_s
        self._since_us = 0  # when something completed last, or was put while nothing was under way
        self._known = 0  # how often the time-out had run out at the last look
        self._told_us = 0  # when it has run out last

    def moved(self) -> None:
        """Something has completed; or something is put, and nothing is under way."""
        self._since_us = self.outbox.user.world.now_us

    def looked(self, line_us: int, every_s: float = 1e9) -> None:
        """The books have looked, as they do so often; the line is there since `line_us`."""
        outbox, limit_s = self.outbox, self.limit_s
        core, ledger, now_us = outbox.core, outbox.user.ledger, outbox.user.world.now_us
        if core is None or limit_s is None or core.failure is not None:
            return
        name = f"{outbox.user.name}: sender {outbox.handle}, whose time-out is {limit_s} s,"
        expired, self._known = core.patience.expired - self._known, core.patience.expired
        if expired:
            ledger.count("time-outs")
            still_s = (now_us - self._since_us) / 1e6
            if not ledger.unsettled(outbox.key) or still_s < limit_s:
                raise Violation(f"{name} is told that nothing completes; {still_s} s ago it did, or there was nothing")
            self._told_us = now_us
            if not core.waiters:
                self._judge(name)
        elif ledger.unsettled(outbox.key):
            still_s = (now_us - max(self._since_us, self._told_us, line_us)) / 1e6
            if still_s > limit_s + 2.1 * every_s:  # the first look begins to count, and the last one may just have been
                raise Violation(f"{name} is not told that nothing has completed for {still_s} s")

    def _judge(self, name: str) -> None:
        """Nobody waits: the next send is to raise it, and says which messages are not complete."""
        outbox = self.outbox
        core = outbox.core
        assert core is not None
        told = [ranges for ranges, failure in core.failures if isinstance(failure, Unavailable)]
        if len(told) != 1:
            raise Violation(f"{name} has {len(told)} times to tell that nothing completes")
        wrong = outbox.user.ledger.open_numbers(outbox.key, core.sent).symmetric_difference(each(told[0]))
        if wrong:
            raise Violation(f"{name} tells that {told[0]} are not complete; that is not so of {sorted(wrong)[:5]}")
        outbox.user.ledger.count("told of a time-out")
