"""How often a broker's store has failed: one that fails again and again is left down, as a fuse that has blown.

A disk's failure ends the broker's processes, and they are started again on the same directory; what was written last
is written again, elsewhere, which heals a single bad block. A disk that is dying would have the others bring this
broker up to date over and over, so after three failures in ten minutes only an operator
starts it again (`durable.md` 6).
"""

from __future__ import annotations

MOST = 3
WITHIN_MS = 600_000


class StoreFailures:
    """Of all brokers of a cluster, as one supervisor has heard of them. Who is left down it is told by the last one."""

    def __init__(self) -> None:
        self._failed: dict[str, dict[str, int]] = {}  # broker -> which life of its store -> when it failed
        self._down: dict[str, str] = {}  # broker -> why the last one failed

    def note(self, broker: str, life: str, now_ms: int, text: str) -> None:
        """A store has failed, or cannot be started, for the reason in `text`. Several processes of the broker may say
        so: a life fails once. `life`: any name of it."""
        if broker in self._down:
            return
        failed = self._failed.setdefault(broker, {})
        for old in [old for old, at_ms in failed.items() if now_ms - at_ms >= WITHIN_MS]:
            del failed[old]
        failed.setdefault(life, now_ms)
        if len(failed) >= MOST:
            self._down[broker] = text

    def down(self, broker: str) -> str:
        """Why a broker is not started again; "" if it is."""
        if broker not in self._down:
            return ""
        return (
            f"broker {broker} is left down, its store has failed {MOST} times within {WITHIN_MS // 60_000} minutes "
            f"({self._down[broker]}): look after the disk, then stop the cluster and start it again, or replace the "
            f"broker (`mantamq broker remove {broker}`, `mantamq broker add`)"
        )

    def left_down(self) -> dict[str, str]:
        """All brokers that are left down, and why the store of each failed last: what the next supervisor must know."""
        return dict(self._down)

    def inherit(self, down: dict[str, str]) -> None:
        """The last supervisor had left these down."""
        self._down.update(down)

    def complaints(self) -> dict[str, str]:
        """All brokers that are left down, and why, in words."""
        return {broker: self.down(broker) for broker in self._down}

    def forget(self, broker: str) -> None:
        """It has left the cluster."""
        self._failed.pop(broker, None)
        self._down.pop(broker, None)
