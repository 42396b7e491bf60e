"""The lock of a synchronous connection, with which is waited for what comes.

Python runs a signal's handler, and what the garbage collector finalises, in the middle of whatever a thread does: also
in a call that has the lock. Whoever then calls the connection would wait for himself, for ever.
"""

from __future__ import annotations

import os
import threading
import weakref

from ..errors import NotAllowed

_all: weakref.WeakSet[CallLock] = weakref.WeakSet()


class CallLock(threading.Condition):
    """One per connection. It is entered once: within itself it is refused.

    Raises (from `with`):
        NotAllowed: this thread has it.
    """

    def __init__(self) -> None:
        super().__init__(threading.RLock())
        _all.add(self)

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def held(self) -> bool:
        """Whether this thread has it."""
        return self._is_owned()  # type: ignore[attr-defined]

    def __enter__(self) -> bool:
        if self._is_owned():  # type: ignore[attr-defined]
            raise NotAllowed(
                "the connection is in the middle of another call of this thread: of a signal's handler, or a "
                "finaliser, it takes close() only; let the handler set a flag, or raise, and call when that has ended"
            )
        return self.acquire()  # as its own `__enter__`, with a call less: each send comes by


def _renew() -> None:
    """In a forked child nobody is left who could give back what a thread of the parent had."""
    for guard in list(_all):
        guard._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
