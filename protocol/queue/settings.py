"""The settings of one queue: of its declaration, all that changes how the queue behaves.

`Host` carries the declaration to each replica, which reads these from it. An argument becomes a setting by one field:

    max_count: Annotated[int, Meta(ge=1), Argument("qpid.max_count", "give an int of at least 1, or leave it out")] = 0

By it a broker knows the name, refuses a value below 1 with that text, and each `HostedQueue` has `settings.max_count`.
A setting that changes how a queue's stream is applied must be refused while the cluster has a member that does not know
it (`Heartbeat.older`): two versions would apply the same events differently.
"""

from __future__ import annotations

import msgspec


class QueueSettings(msgspec.Struct, frozen=True):
    """Attributes:
    alternate: exchange for rejected messages, "" to discard them; of the declaration itself, not of its arguments.
    """

    alternate: str = ""
