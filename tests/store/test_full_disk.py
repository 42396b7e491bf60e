"""A real file system of 16 MiB, in a file that is mounted: full, and read-only. Needs root."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from mantamq.protocol.errors import StoreError
from mantamq.store.catalog.catalog import open_catalog, read_catalog
from mantamq.store.files import RealFiles, read_whole, write_whole
from mantamq.store.identity import StoreState, open_store, read_identity
from mantamq.store.log.log import Log
from mantamq.store.log.recovery import open_log
from mantamq.store.offline.verify import Verified, verify

from tests.store.catalog.wirings import exactly, numbered

MIB = 1 << 20
SIZE = 16 * MIB
TOOLS = ("losetup", "mkfs.ext4", "mount", "umount")


def command(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


class SmallDisk:
    """An ext4 in a file, on a loop device of its own: one that `mount` makes ends some time after `umount`."""

    def __init__(self, folder: Path) -> None:
        self.path = f"{folder}/mounted"
        image = f"{folder}/image"
        os.mkdir(self.path)
        RealFiles().open(image, create_bytes=SIZE).close()
        command("mkfs.ext4", "-q", "-m", "0", image)
        self._device = command("losetup", "--find", "--show", image)

    def mount(self, *options: str) -> None:
        command("mount", "-t", "ext4", "-o", ",".join(("rw", *options)), self._device, self.path)

    def unmount(self) -> None:
        command("umount", self.path)

    def end(self) -> None:
        """Unmount it, also where a test that failed has files open."""
        if os.path.ismount(self.path):
            command("umount", "--lazy", self.path)
        command("losetup", "--detach", self._device)  # when it is used no more

    def again(self, *options: str) -> None:
        """Mount it anew: what is read now is what the file system has, and not what memory had of it."""
        self.unmount()
        self.mount(*options)


@pytest.fixture
def disk(tmp_path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.skip(f"there is no {missing[0]} here")
    made = None
    try:
        made = SmallDisk(tmp_path)
        made.mount()
        yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"nothing can be mounted here: {error.stderr.strip()}")
    finally:
        if made is not None:
            made.end()


def fill(disk: SmallDisk) -> str:
    """Leave no room. Returns what has taken it."""
    path = f"{disk.path}/ballast"
    with open(path, "wb", buffering=0) as file:
        for step in (MIB, 4096, 1):
            try:
                while True:
                    file.write(b"x" * step)
            except OSError as error:
                assert error.errno == errno.ENOSPC
        os.fsync(file.fileno())
    return path


def test_a_full_disk_takes_no_new_file_and_what_was_set_aside_is_written(disk):
    files = RealFiles()
    assert files.file_system(disk.path) == "ext4"
    file = files.open(f"{disk.path}/set-aside", create_bytes=MIB)
    before, free = files.list(disk.path), files.free_bytes(disk.path)
    with pytest.raises(OSError, match=r"No space left on device: '.*/more'") as raised:
        files.open(f"{disk.path}/more", create_bytes=SIZE)
    assert raised.value.errno == errno.ENOSPC
    assert files.list(disk.path) == before
    assert abs(files.free_bytes(disk.path) - free) < MIB
    fill(disk)
    assert files.free_bytes(disk.path) < 4096
    with pytest.raises(OSError, match="No space left"):
        files.open(f"{disk.path}/more", create_bytes=4096)
    file.pwritev([b"w" * MIB], 0)
    file.fdatasync()
    file.close()
    disk.again()
    assert read_whole(files, f"{disk.path}/set-aside") == b"w" * MIB
    assert files.list(disk.path) == sorted([*before, "ballast"])


def test_an_identity_that_finds_no_room_stays_as_it_was(disk):
    files = RealFiles()
    store = open_store(files, f"{disk.path}/data", "b1")
    life = store.begin(1, cluster="c1", store="s1", node="host-1")
    ballast = fill(disk)
    with pytest.raises(OSError, match=r"No space left on device: '.*/store\.json\.new'"):
        store.close_clean("stop-1")
    with pytest.raises(StoreError, match=r"^store-unusable: there is no room in .*/b2.*: make some"):
        open_store(files, f"{disk.path}/data", "b2")
    store.release()
    disk.again()
    assert read_identity(files, f"{disk.path}/data/b1").status is StoreState.DIRTY
    os.unlink(ballast)
    store = open_store(files, f"{disk.path}/data", "b1")
    assert store.begin(1, cluster="c1", store="s1", node="host-1") > life
    store.release()


def test_a_disk_that_is_mounted_read_only_is_refused(disk):
    files = RealFiles()
    store = open_store(files, f"{disk.path}/data", "b1")
    store.begin(1, cluster="c1", store="s1", node="host-1")
    store.release()
    disk.again("ro")
    for broker in ("b1", "b2"):
        with pytest.raises(StoreError, match=r"^store-unusable: .* is mounted read-only: mount it for writing"):
            open_store(files, f"{disk.path}/data", broker)
    with pytest.raises(OSError, match="Read-only file system"):
        write_whole(files, f"{disk.path}/data/b1/store.json", b"{}")


def test_a_log_on_a_full_disk_keeps_what_it_has_flushed(disk):
    files, folder = RealFiles(), f"{disk.path}/tx"
    log = Log.create(files, folder, container_bytes=MIB, containers=2, log_id=bytes(16))
    ballast = files.open(f"{disk.path}/ballast", create_bytes=4 * MIB)
    ballast.close()
    flushed: list[bytes] = []
    with pytest.raises(OSError) as raised:
        for number in range(1000):
            body = b"%08d" % number * 12_000
            log.write([(1, "q", [body])], number)
            log.sync()
            flushed.append(body[:8])
            log.make_spare()
    assert raised.value.errno == errno.ENOSPC and log.error is raised.value
    assert len(flushed) * 96_000 > 6 * MIB
    log.close()
    disk.again()
    files.unlink(f"{disk.path}/ballast")
    log, found = open_log(files, folder)
    assert [bytes(one.payload)[:8] for one in found] == flushed
    log.write([(1, "q", [b"more"])], 1)
    log.sync()
    log.close()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_a_whole_catalogue_is_whole_also_where_nothing_can_be_written(disk, tmp_path, closed):
    store = UUID(int=7)
    files, folder = RealFiles(), f"{tmp_path}/b1"
    made = open_store(files, str(tmp_path), "b1")
    made.begin(1, cluster="c1", store=str(store), node="host-1")
    made.release()
    for log in ("tx", "messages"):
        Log.create(files, f"{folder}/{log}", container_bytes=512 << 10, containers=2, log_id=bytes(16)).close()
    catalog = open_catalog("", folder, store, new=True)
    catalog.save(numbered(1))
    if closed:
        catalog.close()
    shutil.copytree(folder, f"{disk.path}/b1")  # where it was not closed, what was saved last is in another file
    catalog.close()
    disk.again("ro")
    assert exactly(read_catalog("", f"{disk.path}/b1", store)) == exactly(numbered(1))
    found = [one for one in verify(files, f"{disk.path}/b1") if isinstance(one, Verified)]
    assert [one.part for one in found] == ["tx", "messages", "catalogue"]
    assert not [line for one in found for line in one.wrong]
