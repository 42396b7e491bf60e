"""The directory of the stores under attack: which disk goes, which is full, and what a power cut leaves of all.

Every broker has a disk of its own: where the machine allows it (root, and `mount` is there) and a disk is to be full, a
small file system in a file, mounted by loop. `DIR/b1` is a link to a folder on it, so a lost disk is another folder.
What a power cut may take is remembered by `mantamq.store.shadow_files`, whose shadow lies in memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from mantamq.store.shadow_files import SHADOW_FOLDER, power_cut

DISK_BYTES = 1536 * 1024 * 1024
MEMORY = "/dev/shm"
FILLER = "filler"


def can_fill() -> bool:
    """Whether small disks can be made here."""
    return os.geteuid() == 0 and all(map(shutil.which, ("mount", "umount", "mkfs.ext4")))


class Disks:
    """Folders on disk for the stores of so many brokers.

    Args:
        brokers: their names.
        small: each has a small disk of its own, that can be full.

    Attributes:
        data: the directory that a cluster is started with, of so many `brokers`.
        small: whether disks can be filled.
    """

    def __init__(self, brokers: list[str], small: bool) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="manta-disks-"))
        self._shadow = tempfile.mkdtemp(prefix="manta-shadow-", dir=MEMORY if os.path.isdir(MEMORY) else None)
        self._lost = 0
        self.brokers = len(brokers)
        self.small = small
        self.data = self._root / "data"
        self.data.mkdir()
        for broker in brokers:
            disk = self._disk(broker)
            disk.mkdir()
            if small:
                image = self._root / f"{broker}.img"
                with image.open("wb") as file:
                    file.truncate(DISK_BYTES)
                _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))  # nothing is set aside for root
                _run("mount", "-o", "loop", str(image), str(disk))
            (disk / "store").mkdir()
            (self.data / broker).symlink_to(disk / "store")
        os.environ[SHADOW_FOLDER] = self._shadow  # for all processes that are started from here

    def _disk(self, broker: str) -> Path:
        return self._root / f"disk-{broker}"

    # ---- what happens to them

    def wipe(self, broker: str) -> None:
        """An empty disk in place of a broker's: whatever has files of the old one open goes on with these."""
        self._lost += 1
        store = self._disk(broker) / "store"
        gone = store.with_name(f"gone-{self._lost}")
        store.rename(gone)
        store.mkdir()

    def forget(self) -> None:
        """Nobody uses the lost disks any more."""
        for gone in self._root.glob("disk-*/gone-*"):
            shutil.rmtree(gone)

    def fill(self, broker: str, left_bytes: int) -> None:
        """Use up a broker's disk but for about so many bytes."""
        disk = self._disk(broker)
        with (disk / FILLER).open("wb") as file:
            found = os.statvfs(disk)
            size, step = 0, max(0, found.f_bavail * found.f_frsize - left_bytes)
            while step >= found.f_frsize:
                try:
                    os.posix_fallocate(file.fileno(), size, step)
                    size += step
                    break
                except OSError:  # the file system wants some of it for its own books
                    step = step * 15 // 16

    def empty(self, broker: str) -> None:
        """Give back what was used up."""
        (self._disk(broker) / FILLER).unlink(missing_ok=True)

    def cut(self, seed: int) -> list[str]:
        """Leave what a power cut might have left; all processes that wrote were killed. Returns what was done."""
        return power_cut(self._shadow, seed)

    # ---- the end

    def remove(self) -> None:
        os.environ.pop(SHADOW_FOLDER, None)
        for image in self._root.glob("*.img"):
            subprocess.run(["umount", "-l", str(self._disk(image.stem))], check=False, capture_output=True)
        shutil.rmtree(self._root, ignore_errors=True)
        shutil.rmtree(self._shadow, ignore_errors=True)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
