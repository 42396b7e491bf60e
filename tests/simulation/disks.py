"""A disk that never fails: what a broker's keepers held when all its processes died at once, and nothing less.

Of queues only those that are durable are on it. A log that did not vote yet comes back blank, as a disk says it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from mantamq.protocol.broker.cluster_state import KeptWiring
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.log_copy import LogCopy
from mantamq.protocol.replica.hosted_queue import KeptQueue


class Disk(NamedTuple):
    """Attributes: life (under which it was kept), wiring (the broker's), queues (by their ids, for its replicas)."""

    life: int
    wiring: KeptWiring
    queues: dict[str, KeptQueue]

    def copy(self) -> Disk:
        """As it is now: a replica takes out of it what it finds."""
        return Disk(self.life, self.wiring, dict(self.queues))


def disk_of(broker: Any, machines: dict[str, Any]) -> Disk | None:
    """What is on the disk of a broker now; None for one that is blank."""
    if broker.keeper.blank:
        return None
    mine = [machine for name, machine in machines.items() if name.startswith(f"{broker.broker}.")]
    promised = max([broker.view.promised, *(machine.view.promised for machine in mine)])
    queues = {}
    for definition in broker.wiring.queues():
        if definition.durable:
            replica = machines.get(broker.placement.of.get(definition.id, ""))
            hosted = replica.queues.get(definition.id) if replica is not None else None
            queues[definition.id] = _queue(definition.id, broker.broker, hosted, promised)
    wiring = KeptWiring(_log(broker.keeper, promised), deepcopy(broker.wiring.snapshot()))
    return Disk(broker.inc, wiring, queues)


def _queue(id: str, broker: str, hosted: Any, promised: Any) -> KeptQueue:
    if hosted is not None and not hosted.keeper.blank and not hosted.updating:
        hosted.apply()
        if hosted.applied == hosted.keeper.commit:
            state = deepcopy(hosted.state.snapshot())
            return KeptQueue(_log(hosted.keeper, promised), state, dict(hosted.state.blobs))
    return KeptQueue(_log(Keeper(id, broker, blank=True), promised), None, {})  # type: ignore[arg-type]


def _log(keeper: Keeper, promised: Any) -> LogCopy:
    return LogCopy(
        keeper.life,
        keeper.log_inc,
        keeper.blank,
        promised,
        keeper.commit,
        keeper.base,
        keeper._base_ballot,
        keeper._base_seq,
        [keeper._log[index] for index in range(keeper.base + 1, keeper.end + 1)],
        dict(keeper.numbers),
        dict(keeper.over),
        dict(keeper.incs),
        dict(keeper.lives),
        list(keeper.voters),
    )
