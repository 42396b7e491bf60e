"""Format 1 stays as it is: the same calls write the same bytes, and the bytes of the day it was made are read.

`MANTA_RECORD=1 pytest tests/store/log/test_golden.py` writes `golden/` anew; a change of it is a change of the format.
"""

from __future__ import annotations

import os
from pathlib import Path

from mantamq.store.log.dump import dump
from mantamq.store.log.log import Log, Outgoing
from mantamq.store.log.recovery import open_log

from ..disks import SimulatedFiles

GOLDEN = Path(__file__).parent / "golden"
FOLDER = "/store/tx"
SIZE = 16 * 1024
TIME_US = 1_764_000_000_000_000


def written() -> SimulatedFiles:
    """A log with everything in it: a base, a promise, a group and a record that are cut, a batch written again."""
    files = SimulatedFiles()
    log = Log.create(files, FOLDER, container_bytes=SIZE, containers=2, log_id=bytes(range(16)), least_bytes=SIZE)
    old = log.write([Outgoing(1, "orders", [b"begins"]), Outgoing(5, "", [b"promise" * 1500])], TIME_US)
    log.note_ballot((3, 0xABCDEF))
    kept = log.write(
        [Outgoing(4, "orders", [b"checkpoint of ", b"%d" % old[0]]), Outgoing(2, "ümlaut", [])], TIME_US + 1
    )
    log.free_below(kept[0])
    body = [b"%d," % number for number in range(4000)]
    log.write([Outgoing(2, "n" * 40, [b"small"]), Outgoing(3, "n" * 300, body), Outgoing(2, "n" * 40, [])], TIME_US + 2)
    log.write([Outgoing(2, "orders", [b"again"]), Outgoing(2, "orders", [b"and again"])], TIME_US + 4)
    log.sync()
    files.kill()
    log, found = open_log(files, FOLDER)
    assert len(list(found)) == 7
    log.prove()
    return files


def listed(files: SimulatedFiles) -> str:
    return "\n".join(" ".join(map(str, row)) for row in dump(files, FOLDER)) + "\n"


def test_what_is_written_is_as_it_was():
    files = written()
    names = [name for name in files.list(FOLDER) if name[0] == "0"]
    held = {name: files.open(f"{FOLDER}/{name}").pread(SIZE, 0).rstrip(b"\0") for name in names}
    if os.environ.get("MANTA_RECORD"):
        GOLDEN.mkdir(exist_ok=True)
        for name, content in held.items():
            (GOLDEN / name).write_bytes(content)
        (GOLDEN / "dump.txt").write_text(listed(files), "utf-8")
    assert held == {path.name: path.read_bytes() for path in sorted(GOLDEN.glob("*.log"))}


def test_what_was_written_is_read():
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    for path in sorted(GOLDEN.glob("*.log")):
        files.open(f"{FOLDER}/{path.name}", create_bytes=SIZE).pwritev([path.read_bytes()], 0)
    assert listed(files) == (GOLDEN / "dump.txt").read_text("utf-8")
    log, found = open_log(files, FOLDER)
    assert [one.payload[:10] for one in found] == [
        b"checkpoint",
        b"",
        b"small",
        b"0,1,2,3,4,",
        b"",
        b"again",
        b"and again",
    ]
    assert not found.damage and log.ballot == (3, 0xABCDEF)
