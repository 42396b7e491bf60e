"""Names of queues that brokers make: of a queue that is declared without one.

What makes a name like no other, and not to be guessed, is drawn by the client that asks. So a broker needs no chance of
its own, and a command that is asked again at another broker, since its answer was lost, means the same queue.
"""

from __future__ import annotations

import re

from ..errors import INVALID, NOT_ALLOWED, PeerError

MADE = "manta.gen-"
"""How the names begin that brokers make."""
_FRESH = re.compile("[0-9A-Za-z_-]{16,64}", re.ASCII)


def named(name: str, fresh: str, there: bool) -> str:
    """The name of a queue that is to be declared.

    Args:
        name: as its client gives it, "" for none.
        fresh: what the client has drawn for a name to be made of.
        there: whether there is a queue of the name that was given.

    Raises:
        PeerError: `invalid`, there is nothing to make a name of, or no need of one; `not-allowed`, the client has made
            one itself that looks like a broker's.
    """
    if not name:
        if not _FRESH.fullmatch(fresh):
            text = "a queue without a name gets one that is made of fresh, 16 to 64 letters, digits, _ or -"
            raise PeerError(INVALID, f"{text}, drawn at random: give that, or a name")
        return MADE + fresh
    if fresh:
        raise PeerError(INVALID, f"queue {name!r} has a name, and needs none to be made: leave out one of the two")
    if name.startswith(MADE) and not there:
        text = f'names that begin with {MADE} are made by brokers, and there is no queue {name!r}: declare one named ""'
        raise PeerError(NOT_ALLOWED, text)
    return name
