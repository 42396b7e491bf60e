"""The catalogue in a real transaction log, on a simulated disk whose power goes at any call."""

from __future__ import annotations

from random import Random

import pytest
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import CHECKPOINT, PROMISE
from mantamq.store.catalog.log_form import LogCatalog
from mantamq.store.log.log import Log
from mantamq.store.log.recovery import open_log

from tests.store.catalog.wirings import exactly, numbered
from tests.store.disks import Fault, PowerCut, SimulatedFiles

FOLDER = "/b1/tx"


class LogRecords:
    """The transaction log, as the catalogue in it sees it."""

    def __init__(self, files: SimulatedFiles, new: bool) -> None:
        self._last: bytes | None = None
        if new:
            self.log = Log.create(files, FOLDER, container_bytes=1 << 19, containers=2, log_id=bytes(range(16)))
            return
        self.log, scan = open_log(files, FOLDER)
        for found in scan:
            if found.kind == CHECKPOINT and found.stream == CLUSTER:
                self._last = bytes(found.payload)
        assert not scan.damage

    def append(self, payload: bytes) -> None:
        # Other records come before and behind, as in a log of the cluster's.
        self.log.write(
            [(PROMISE, "", [b"\x91\x01"]), (CHECKPOINT, CLUSTER, [payload]), (PROMISE, "", [b"\x91\x02"])], 0
        )
        self.log.sync()
        self._last = payload

    def last(self) -> bytes | None:
        return self._last


@pytest.mark.parametrize("seed", range(25))
def test_after_a_power_cut_there_is_the_last_save_or_the_next(seed: int) -> None:
    files, chance = SimulatedFiles(seed), Random(seed)
    catalog = LogCatalog(LogRecords(files, new=True))
    number = saved = 0
    for _ in range(3):
        files.fail(chance.randrange(30), chance.choice((Fault.CRASH_BEFORE, Fault.CRASH_AFTER)))
        try:
            while True:
                number += 1
                catalog.save(numbered(number))
                saved = number
        except PowerCut:
            files.crash()
        catalog = LogCatalog(LogRecords(files, new=False))
        found = catalog.load()
        if found is None:
            assert saved == 0
            continue
        assert found.index in (saved, number)
        assert exactly(found) == exactly(numbered(found.index))
        saved = found.index
