"""One contract of a file system, over the real one and those that stand for it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mantamq.protocol.errors import StoreError
from mantamq.store.files import IOV_MAX, Files, RealFiles, read_whole, write_whole
from mantamq.store.shadow_files import ShadowFiles

from .disks import SimulatedFiles


@pytest.fixture(params=["real", "shadowed", "simulated"])
def files(request, tmp_path) -> Files:
    if request.param == "simulated":
        return SimulatedFiles()
    return RealFiles() if request.param == "real" else ShadowFiles(f"{tmp_path}/shadow")


@pytest.fixture
def folder(files, tmp_path) -> str:
    path = f"{tmp_path}/store"
    files.make_folder(path)
    return path


def test_a_new_file_is_full_of_zeros_and_has_its_length(files, folder):
    with pytest.raises(FileNotFoundError):
        files.open(f"{folder}/a")
    file = files.open(f"{folder}/a", create_bytes=3 << 20)
    assert file.size == 3 << 20
    assert file.pread(5 << 20, 0) == bytes(3 << 20)
    with pytest.raises(FileExistsError):
        files.open(f"{folder}/a", create_bytes=1)
    assert files.open(f"{folder}/a").size == 3 << 20
    assert files.list(folder) == ["a"]


def test_what_is_written_is_read(files, folder):
    file = files.open(f"{folder}/a", create_bytes=10)
    file.pwritev([b"ab", b"", memoryview(b"xcdx")[1:3]], 2)
    assert file.pread(10, 0) == b"\0\0abcd\0\0\0\0"
    assert file.pread(3, 9) == b"\0"
    assert file.pread(3, 10) == file.pread(3, 99) == b""
    file.pwritev([b"123"], 9)
    assert file.size == 12
    file.fdatasync()
    file.close()
    file.close()
    again = files.open(f"{folder}/a", read_only=True)
    assert again.size == 12
    assert again.pread(4, 8) == b"\x00123"
    with pytest.raises(OSError):
        again.pwritev([b"x"], 0)
    with pytest.raises(OSError):
        file.pread(1, 0)


def test_more_buffers_than_one_call_takes(files, folder):
    buffers = [b"%6d" % number for number in range(2 * IOV_MAX + 3)]
    file = files.open(f"{folder}/a", create_bytes=1)
    file.pwritev(buffers, 7)
    assert file.pread(file.size, 7) == b"".join(buffers)


def test_names(files, folder):
    for name in "ba":
        files.open(f"{folder}/{name}", create_bytes=1).pwritev([name.encode()], 0)
    files.make_folder(f"{folder}/c/d")
    files.make_folder(f"{folder}/c/d")
    assert files.list(folder) == ["a", "b", "c"]
    assert files.list(f"{folder}/c") == ["d"]
    files.rename(f"{folder}/a", f"{folder}/b")
    assert files.list(folder) == ["b", "c"]
    assert read_whole(files, f"{folder}/b") == b"a"
    assert files.exists(f"{folder}/b") and files.exists(f"{folder}/c") and not files.exists(f"{folder}/a")
    files.sync_folder(folder)
    files.unlink(f"{folder}/b")
    assert not files.exists(f"{folder}/b")
    files.rename(f"{folder}/c", f"{folder}/e")
    assert files.list(f"{folder}/e") == ["d"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda files, folder: files.open(f"{folder}/none"), FileNotFoundError),
        (lambda files, folder: files.open(f"{folder}/none/a", create_bytes=1), FileNotFoundError),
        (lambda files, folder: files.open(f"{folder}/file/a", create_bytes=1), NotADirectoryError),
        (lambda files, folder: files.open(folder), IsADirectoryError),
        (lambda files, folder: files.list(f"{folder}/none"), FileNotFoundError),
        (lambda files, folder: files.list(f"{folder}/file"), NotADirectoryError),
        (lambda files, folder: files.make_folder(f"{folder}/file/a"), FileExistsError),
        (lambda files, folder: files.make_folder(f"{folder}/file"), FileExistsError),
        (lambda files, folder: files.rename(f"{folder}/none", f"{folder}/a"), FileNotFoundError),
        (lambda files, folder: files.rename(f"{folder}/file", f"{folder}/none/a"), FileNotFoundError),
        (lambda files, folder: files.unlink(f"{folder}/none"), FileNotFoundError),
        (lambda files, folder: files.sync_folder(f"{folder}/none"), FileNotFoundError),
        (lambda files, folder: files.sync_folder(f"{folder}/file"), NotADirectoryError),
        (lambda files, folder: files.lock(f"{folder}/none/lock", "b1"), FileNotFoundError),
        (lambda files, folder: files.free_bytes(f"{folder}/none"), FileNotFoundError),
    ],
)
def test_failures_are_the_operating_systems(files, folder, call, error):
    files.open(f"{folder}/file", create_bytes=1)
    with pytest.raises(error) as raised:
        call(files, folder)
    assert raised.value.filename.startswith(folder)
    assert files.list(folder) == ["file"]


def test_a_lock_is_held_by_one(files, folder):
    lock = files.lock(f"{folder}/lock", "b1.store, process 17 on host one")
    with pytest.raises(StoreError, match=r"^store-locked: .*/lock is held by b1\.store, process 17 on host one: stop"):
        files.lock(f"{folder}/lock", "b2")
    lock.release()
    lock.release()
    files.lock(f"{folder}/lock", "b2")
    with pytest.raises(StoreError, match="is held by b2: "):
        files.lock(f"{folder}/lock", "b3")


def test_a_file_is_replaced_whole(files, folder):
    write_whole(files, f"{folder}/a.json", b"first")
    write_whole(files, f"{folder}/a.json", b"2nd")
    assert read_whole(files, f"{folder}/a.json") == b"2nd"
    files.open(f"{folder}/a.json.new", create_bytes=100)  # what a crash has left
    write_whole(files, f"{folder}/a.json", b"third")
    assert read_whole(files, f"{folder}/a.json") == b"third"
    assert files.list(folder) == ["a.json"]


def test_space_and_kind_of_the_file_system_are_told(files, folder):
    assert files.free_bytes(folder) > 0
    assert files.file_system(folder) == files.file_system(f"{folder}/not/there")


# ---- the real one only


def test_short_writes_go_on(tmp_path, monkeypatch):
    calls = []
    real = os.pwritev

    def short(descriptor, buffers, offset):
        calls.append(offset)
        assert len(buffers) <= IOV_MAX
        joined = b"".join(buffers)
        return real(descriptor, [joined[:3]], offset)

    file = RealFiles().open(f"{tmp_path}/a", create_bytes=20)
    monkeypatch.setattr(os, "pwritev", short)
    file.pwritev([b"ab", b"cdefgh", b"i"], 5)
    assert calls == [5, 5, 8, 11], "the first was to be all of it"
    assert file.pread(20, 0) == b"\0" * 5 + b"abcdefghi" + b"\0" * 6
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    with pytest.raises(OSError, match="nothing was written"):
        file.pwritev([b"x"], 0)


def test_of_a_failed_creation_nothing_is_left(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/a'"):
        RealFiles().open(f"{tmp_path}/a", create_bytes=1)
    assert os.listdir(tmp_path) == []


def test_new_folders_are_flushed_from_the_top(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(RealFiles, "sync_folder", lambda _, path: flushed.append((path, sorted(os.listdir(path)))))
    RealFiles().make_folder(f"{tmp_path}/a/b")
    assert flushed[1:] == [(f"{tmp_path}", ["a"]), (f"{tmp_path}/a", ["b"])]
    assert flushed[0][0] == str(tmp_path.parent)


def test_another_processes_lock_ends_with_it(tmp_path):
    code = (
        "import sys; from mantamq.store.files import RealFiles; kept = RealFiles().lock(sys.argv[1], 'b1, process 17');"
        " print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, f"{tmp_path}/lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(StoreError, match="held by b1, process 17"):
            RealFiles().lock(f"{tmp_path}/lock", "b2")
        other.kill()
        other.wait()
    RealFiles().lock(f"{tmp_path}/lock", "b2").release()
    assert Path(f"{tmp_path}/lock").read_text() == "b2"


def test_the_longest_mount_says_the_kind_of_file_system():
    assert RealFiles().file_system("/proc/self") == "proc"
