"""The frames by which a broker says that its disk or its memory has no room, or has room again (`durable.md` 6), and is
told by its processes what they have; kinds 85 and 19. And 122, by which clients hear of it.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .frame import Frame


class Pressed(Frame):
    """From a broker to the sequencer, whenever it attaches and when it changes: the reserve of its store is begun
    (`on`), or whole again; `memory`: why its processes should have no more, "" while they may. A sequencer before minor
    3 passes over it, and leads no cluster with stores; one before minor 8 over `memory`."""

    broker: str
    on: bool
    memory: str = ""


class Resident(Frame):
    """To a broker, from a process of its own: so many bytes of memory that has now; again when it has another 4 MiB,
    more or less."""

    bytes: int


class FlowStopped(Frame):
    """To a client with senders: flow control is on in the whole cluster, and why; "": it is off."""

    reason: str
