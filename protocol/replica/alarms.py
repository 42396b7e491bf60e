"""The alerts of a process's queues: when each is looked at, which replica speaks for a queue, and who hears it.

The voter that comes first by name and is not out speaks: so every replica knows by the stream whether it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..machine import Effect, Warn
from ..queue.alerts import Alert, Alerts
from ..queue.level import count_in, size_of
from ..queue.state import QueueState
from ..queue.statistics import age_ms, arrived
from .hosted_queue import HostedQueue
from .observers import ReplicaObserver


class Alarms:
    """Args:
    broker: whose process this is.
    wake: has a queue, by its id, looked at again at that time.
    effects: takes what is to be done.
    """

    def __init__(
        self, broker: str, wake: Callable[[str, int], None], effects: Callable[[Effect], None],
        observers: Sequence[ReplicaObserver] = (),
    ) -> None:  # fmt: skip
        self._broker = broker
        self._wake = wake
        self._effects = effects
        self._observers = observers
        self._alerts: dict[str, tuple[QueueState, Alerts | None]] = {}

    def look(self, queue: HostedQueue, now_ms: int) -> None:
        """A queue has been served."""
        state = queue.state
        if state.next_position != state.tallies.arrived_to:  # this is asked at the end of every batch
            arrived(state, now_ms)
        known = self._alerts.get(queue.id)
        if known is None or known[0] is not state:
            if not queue.serving:
                return
            settings = queue.settings
            known = self._alerts[queue.id] = state, Alerts(settings, state.tallies.raised) if settings.alerts else None
        alerts = known[1]
        if alerts is None or not queue.catch_up.whole:
            return
        levels = {"count": count_in(state), "size": size_of(state), "age": age_ms(state, now_ms) // 1000}
        speaker = min((voter for voter in queue.keeper.voters if voter not in state.fence.absent), default="")
        for alert in alerts.look(levels, now_ms, speaker == self._broker):
            self._tell(queue.id, alert)
        state.tallies.raised = alerts.raised
        if alerts.next_ms:
            self._wake(queue.id, alerts.next_ms)

    def gone(self, id: str) -> None:
        """The queue is deleted."""
        self._alerts.pop(id, None)

    def _tell(self, id: str, alert: Alert) -> None:
        name = id.rpartition("#")[0]
        self._effects(Warn(f"queue {name!r}: {alert.text}", name))
        for observer in self._observers:
            observer.alerted(id, alert)
