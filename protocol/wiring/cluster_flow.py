"""Whether flow control is on in the cluster: replicated, a pure function of the cluster stream (`design.md` 7)."""

from __future__ import annotations

from ..wire.events import AnyEvent, Evict, FlowControl, Start
from .snapshot import FlowSnapshot


class ClusterFlow:
    """Attributes:
    members: each member that is behind -> how far, in words; flow control is on while there is one.
    count: how often it has gone on (Qpid's ``flowStoppedCount``).
    """

    __slots__ = ("count", "members")

    def __init__(self) -> None:
        self.members: dict[str, str] = {}
        self.count = 0

    @property
    def stopped(self) -> bool:
        return bool(self.members)

    def apply(self, event: AnyEvent) -> None:
        """Apply an event of the cluster stream; events without a bearing on flow control change nothing."""
        match event:
            case FlowControl(on=True):
                self.count += not self.members
                self.members[event.member] = event.reason
            case FlowControl():
                self.members.pop(event.member, None)
            case Evict():
                self.members.pop(event.broker, None)
            case Start():
                self.members.clear()
            case _:
                pass

    def snapshot(self) -> FlowSnapshot:
        return FlowSnapshot(sorted(self.members.items()), self.count)

    @classmethod
    def restore(cls, snapshot: FlowSnapshot) -> ClusterFlow:
        state = cls()
        state.members, state.count = dict(snapshot.members), snapshot.count
        return state
