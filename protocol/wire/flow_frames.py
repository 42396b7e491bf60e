"""The frame by which a broker says that its disk has no room, or has room again (`durable.md` 6)."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .frame import Frame


class Pressed(Frame):
    """From a broker to the sequencer, whenever it attaches and when it changes: the reserve of its store is begun
    (`on`), or whole again. A sequencer before minor 3 passes over it, and leads no cluster with stores."""

    broker: str
    on: bool
