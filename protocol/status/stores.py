"""What a broker's store reports of itself, and of each of its logs."""

from __future__ import annotations

from .base import StatusStruct


class StoreLogStatus(StatusStruct, kw_only=True):
    """A log of a broker's store.

    Attributes:
        base, end: LSN of its oldest container, and of the place where the next batch goes.
        live_bytes: bodies and checkpoints that are needed.
        streams: number of streams that have records in it.
        unowned: those that no process keeps now: they hold the base.
        hurt: those of which a part cannot be read, or may be missing.
        damage: the stretches that cannot be read, as [first, behind] LSNs.
        used_bytes: of its containers.
        spare_bytes: of those that wait to be used.
        oldest_us: when the first record of its oldest container was ordered; Unix time in microseconds, 0 for none.
    """

    base: int
    end: int
    live_bytes: int
    streams: int
    unowned: list[str]
    hurt: list[str]
    damage: list[list[int]]
    used_bytes: int = 0
    spare_bytes: int = 0
    oldest_us: int = 0


class StoreStatus(StatusStruct, kw_only=True):
    """A broker's store.

    Attributes:
        name: its peer name.
        promised: the highest ballot it has been told to keep.
        groups: number of groups that were flushed.
        waiting: number of writes that wait for the next flush.
        logs: log -> how it is.
        left_bytes: what may be written before the reserve is begun.
        pressed: the reserve is begun. full: half of it is gone.
        folder: its path.
        state: as in `store.json`.
        flushes_per_s, flush_p99_ms: of the last ten to twenty seconds.
        catalog: why the wiring could not be saved in the catalogue, "" if it could.
        catalog_index: of the cluster stream, as saved there; 0: not yet, or it is kept in the log alone.
    """

    name: str
    promised: list[int]
    groups: int
    waiting: int
    logs: dict[str, StoreLogStatus]
    left_bytes: int
    pressed: bool
    full: bool
    folder: str = ""
    state: str = ""
    flushes_per_s: float = 0.0
    flush_p99_ms: float = 0.0
    catalog: str = ""
    catalog_index: int = 0

    @property
    def disk_bytes(self) -> int:
        """What its logs take on the disk, spares included, as `mantamq store list` says and an operator counts."""
        return sum(log.used_bytes + log.spare_bytes for log in self.logs.values())

    @property
    def live_bytes(self) -> int:
        """What of that is needed."""
        return sum(log.live_bytes for log in self.logs.values())

    @property
    def oldest_us(self) -> int:
        """When the oldest that its logs hold was ordered; 0 for nothing."""
        return min((log.oldest_us for log in self.logs.values() if log.oldest_us), default=0)
