"""The disks under attack lose what disks lose, and nothing else."""

import errno
import os
from pathlib import Path

import pytest
from mantamq.store.files import Files
from mantamq.store.shadow_files import SHADOW_FOLDER, system_files

from tests.chaos.disks import Disks, can_fill

PAGES = 64
OLD, NEW = b"o" * 4096, b"n" * 4096


@pytest.fixture
def disks():
    made = Disks(["b1", "b2"], small=False)
    yield made
    made.remove()
    assert SHADOW_FOLDER not in os.environ and not made.data.exists()


def write(files: Files, path: Path, flushed: bool) -> None:
    file = files.open(str(path))
    file.pwritev([NEW] * PAGES, 0)
    if flushed:
        file.fdatasync()
    file.close()


def begun(files: Files, broker: Path) -> Path:
    """A file of old pages that is there for good."""
    path = broker / "log"
    file = files.open(str(path), create_bytes=PAGES * 4096)
    file.pwritev([OLD] * PAGES, 0)
    file.fdatasync()
    file.close()
    files.sync_folder(str(broker))
    return path


def test_a_power_cut_takes_some_of_what_was_not_flushed(disks):
    files = system_files()
    first, second = begun(files, disks.data / "b1"), begun(files, disks.data / "b2")
    write(files, first, flushed=False)
    write(files, second, flushed=True)
    lost = disks.cut(1)
    assert 0 < len(lost) < PAGES and all(str(first.resolve().parent) in line or str(first) in line for line in lost)
    assert second.read_bytes() == NEW * PAGES
    left = first.read_bytes()
    assert OLD in left and NEW in left
    assert disks.cut(2) == [] and first.read_bytes() == left


def test_a_lost_disk_is_empty_and_the_others_are_not(disks):
    files = system_files()
    first, second = begun(files, disks.data / "b1"), begun(files, disks.data / "b2")
    file = files.open(str(first))
    disks.wipe("b1")
    file.pwritev([NEW], 0)  # whoever has it open has not noticed
    file.close()
    assert os.listdir(disks.data / "b1") == [] and second.exists()
    disks.wipe("b1")
    disks.forget()
    assert os.listdir(disks.data / "b1") == []


@pytest.mark.skipif(not can_fill(), reason="small disks cannot be mounted here")
def test_a_disk_that_is_full_has_room_again():
    disks = Disks(["b1"], small=True)
    try:
        before = system_files().free_bytes(str(disks.data / "b1"))
        disks.fill("b1", 8 * 1024**2)
        assert system_files().free_bytes(str(disks.data / "b1")) <= 8 * 1024**2 < before
        disks.fill("b1", 0)
        with pytest.raises(OSError) as full:
            system_files().open(str(disks.data / "b1" / "log"), create_bytes=4 * 1024**2)
        assert full.value.errno == errno.ENOSPC
        disks.empty("b1")
        assert system_files().free_bytes(str(disks.data / "b1")) > 8 * 1024**2
    finally:
        disks.remove()
    assert not disks.data.exists()
