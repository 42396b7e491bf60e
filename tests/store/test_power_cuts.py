"""What a power cut may take, told once for the disk in memory and for real files with a shadow.

A story runs over many seeds, and its ends are collected: each kind of loss has to happen, and no other may.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Protocol

import pytest
from mantamq.store.aftermath import PAGE_BYTES, SECTOR_BYTES
from mantamq.store.files import File, Files, RealFiles, read_whole, write_whole
from mantamq.store.shadow_files import SHADOW_FOLDER, ShadowFiles, power_cut, system_files

from .disks import SimulatedFiles

SEEDS = 60
OLD, NEW = b"o" * PAGE_BYTES, b"n" * PAGE_BYTES


class Disk(Files, Protocol):
    def crash(self) -> None: ...


class Shadowed:
    """Real files below a root of their own; a cut is one of all processes that write there."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root, self._shadow, self._seed = f"{root}/disk", f"{root}/shadow", seed
        os.mkdir(self._root)
        self.crash()

    def crash(self) -> None:
        self._files = ShadowFiles(self._shadow)
        power_cut(self._shadow, self._seed)

    def open(self, path: str, *, create_bytes: int = 0, read_only: bool = False) -> File:
        return self._files.open(self._root + path, create_bytes=create_bytes, read_only=read_only)

    def rename(self, old: str, new: str) -> None:
        self._files.rename(self._root + old, self._root + new)

    def __getattr__(self, name: str) -> Callable[[str], object]:
        return lambda path: getattr(self._files, name)(self._root + path)


@pytest.fixture(params=["simulated", "shadowed"])
def outcomes(request, tmp_path):
    """What a story ends with, over seeds."""

    def run(story: Callable[[Disk], Hashable]) -> Counter[Hashable]:
        found: Counter[Hashable] = Counter()
        for seed in range(SEEDS):
            if request.param == "simulated":
                found[story(SimulatedFiles(seed))] += 1
            else:
                os.mkdir(root := tmp_path / str(seed))
                found[story(Shadowed(root, seed))] += 1
        return found

    return run


def made(files: Disk, name: str = "/a", content: bytes = OLD) -> File:
    """A file that is on the disk, name and all."""
    file = files.open(name, create_bytes=len(content))
    file.pwritev([content], 0)
    file.fdatasync()
    files.sync_folder("/")
    return file


def test_what_was_flushed_is_there(outcomes):
    def story(files: Disk) -> Hashable:
        made(files)
        files.make_folder("/b/c")
        write_whole(files, "/b/c/d", b"whole")
        files.crash()
        return read_whole(files, "/a"), read_whole(files, "/b/c/d"), *files.list("/b/c")

    assert outcomes(story) == {(OLD, b"whole", "d"): SEEDS}


def test_a_new_file_has_its_content_but_maybe_not_its_name(outcomes):
    def story(files: Disk) -> Hashable:
        files.open("/a", create_bytes=3)
        files.crash()
        return read_whole(files, "/a") if files.exists("/a") else None

    found = outcomes(story)
    assert set(found) == {None, bytes(3)} and min(found.values()) > SEEDS / 10


def test_each_page_is_the_old_one_or_the_new_one(outcomes):
    def story(files: Disk) -> Hashable:
        file = made(files, content=OLD * 3)
        file.pwritev([NEW * 3], 0)
        files.crash()
        content = read_whole(files, "/a")
        return tuple(content[at : at + PAGE_BYTES] for at in range(0, len(content), PAGE_BYTES))

    found = outcomes(story)
    assert all(len(pages) == 3 for pages in found)
    whole = {pages for pages in found if set(pages) <= {OLD, NEW}}
    assert {(OLD, OLD, OLD), (NEW, NEW, NEW)} < whole
    assert any(pages[0] == OLD and pages[2] == NEW for pages in whole)  # a later page without an earlier one
    torn = [[page for page in pages if page not in (OLD, NEW)] for pages in found]
    assert {len(pages) for pages in torn} == {0, 1}
    for (page,) in filter(None, torn):
        sectors = {page[at : at + SECTOR_BYTES] for at in range(0, PAGE_BYTES, SECTOR_BYTES)}
        assert sectors == {OLD[:SECTOR_BYTES], NEW[:SECTOR_BYTES]}


def test_a_file_that_grew_may_be_short_or_have_zeros(outcomes):
    def story(files: Disk) -> Hashable:
        file = made(files, content=OLD)
        file.pwritev([NEW], PAGE_BYTES)
        files.crash()
        content = read_whole(files, "/a")
        assert content[:PAGE_BYTES] == OLD
        return content[PAGE_BYTES:] if content[PAGE_BYTES:] in (b"", NEW, bytes(PAGE_BYTES)) else "torn"

    assert set(outcomes(story)) == {b"", NEW, bytes(PAGE_BYTES), "torn"}


def test_names_that_were_not_flushed_are_kept_and_lost(outcomes):
    def story(files: Disk) -> Hashable:
        for name in ("/a", "/b", "/c"):
            made(files, name, name.encode())
        files.rename("/a", "/b")
        files.unlink("/c")
        files.open("/d", create_bytes=1)
        files.crash()
        return *files.list("/"), read_whole(files, "/b")

    found = outcomes(story)
    renamed, unlinked, created = (
        ("a" not in one for one in found),
        ("c" not in one for one in found),
        ("d" in one for one in found),
    )
    assert len({*zip(renamed, unlinked, created, strict=True)}) == 8  # any subset
    assert {("a" in one, one[-1]) for one in found} == {(True, b"/b"), (False, b"/a")}  # a rename is one change


def test_names_that_were_flushed_stay(outcomes):
    def story(files: Disk) -> Hashable:
        for name in ("/a", "/b", "/c"):
            made(files, name, name.encode())
        files.rename("/a", "/b")
        files.unlink("/c")
        files.sync_folder("/")
        files.crash()
        return *files.list("/"), read_whole(files, "/b")

    assert outcomes(story) == {("b", b"/a"): SEEDS}


def test_changes_of_one_file_or_name_keep_their_order(outcomes):
    def story(files: Disk) -> Hashable:
        made(files, "/spare")
        files.rename("/spare", "/1")
        files.rename("/1", "/2")
        files.unlink("/2")
        files.crash()
        return tuple(files.list("/"))

    assert set(outcomes(story)) == {("spare",), ("1",), ("2",), ()}


def test_a_flush_of_one_folder_is_none_of_another(outcomes):
    def story(files: Disk) -> Hashable:
        for folder in ("/x", "/y"):
            files.make_folder(folder)
            files.open(f"{folder}/a", create_bytes=1)
        files.sync_folder("/y")
        files.crash()
        return len(files.list("/x")), len(files.list("/y"))

    assert set(outcomes(story)) == {(0, 1), (1, 1)}


def test_what_replaced_a_file_is_undone_with_its_pages(outcomes):
    def story(files: Disk) -> Hashable:
        replaced = made(files, "/b", b"first")
        replaced.pwritev([b"later"], 0)
        made(files, "/a", b"other")
        files.rename("/a", "/b")
        files.rename("/b", "/c")
        files.crash()
        return *files.list("/"), *(read_whole(files, f"/{name}") for name in files.list("/"))

    found = outcomes(story)
    undone = {one[2:] for one in found if one[:2] == ("a", "b")}
    assert undone >= {(b"other", b"first"), (b"other", b"later")}
    assert set(found) == {*((*"ab", *one) for one in undone), ("b", b"other"), ("c", b"other")}


def test_a_removed_file_that_is_back_has_lost_what_any_file_may_lose(outcomes):
    def story(files: Disk) -> Hashable:
        file = made(files)
        file.pwritev([NEW], 0)
        files.unlink("/a")
        files.crash()
        return read_whole(files, "/a")[:: PAGE_BYTES - 1] if files.exists("/a") else None

    assert {None, b"oo", b"nn"} <= set(outcomes(story)) <= {None, b"oo", b"nn", b"on", b"no"}


# ---- real processes


WRITER = """
import itertools, random, sys
from mantamq.store.files import write_whole
from mantamq.store.shadow_files import system_files

folder, first, early = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "early"
files = system_files()
files.make_folder(folder)
pages = files.open(f"{folder}/pages", create_bytes=8 * 4096) if first == 0 else files.open(f"{folder}/pages")
files.sync_folder(folder)
for number in itertools.count(first):
    begun = [random.randrange(8) for _ in range(3)]
    for page in begun:
        pages.pwritev([b"%016d" % number * 256], page * 4096)
    if early:
        print("flushed", number, *begun, flush=True)
    pages.fdatasync()
    if not early:
        print("flushed", number, *begun, flush=True)
    if number % 3 == 0:
        write_whole(files, f"{folder}/number", b"%d" % number)
        print("whole", number, flush=True)
    if number % 5 == 0:
        files.rename(f"{folder}/pages", f"{folder}/other")
        files.rename(f"{folder}/other", f"{folder}/pages")
"""


class Writers:
    """Processes that write a folder until they are killed, and what they said was flushed."""

    def __init__(self, root: Path, seed: int, how: str) -> None:
        self.root, self.seed, self.how = root, seed, how
        self.whole, self.pages, self.next = 0, [-1] * 8, 0
        root.mkdir()

    def run(self, lines: int) -> None:
        """Kill one while it does what comes after so many lines."""
        command = [sys.executable, "-c", WRITER, f"{self.root}/disk", str(self.next), self.how]
        environment = os.environ | {SHADOW_FOLDER: f"{self.root}/shadow"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(lines)]
            writer.kill()
            said += writer.stdout.readlines()
        for line in said:
            what, number, *pages = line.split()
            if what == "whole":
                self.whole = int(number)
            else:
                self.next = int(number) + 1
                for page in pages:
                    self.pages[int(page)] = int(number)

    def lost(self) -> list[str]:
        """What was flushed and is not there after a power cut."""
        power_cut(f"{self.root}/shadow", self.seed)
        names = os.listdir(f"{self.root}/disk")
        content = (self.root / "disk" / ("pages" if "pages" in names else "other")).read_bytes()
        wrong = [] if int((self.root / "disk/number").read_bytes()) >= self.whole else ["number"]
        for page, flushed in enumerate(self.pages):
            stamps = {content[at : at + 16] for at in range(page * PAGE_BYTES, (page + 1) * PAGE_BYTES, 16)}
            if any(int(stamp.strip(b"\0") or b"-1") < flushed for stamp in stamps):
                wrong.append(f"page {page}")
        return wrong


@pytest.mark.parametrize("seed", range(4))
def test_what_killed_processes_had_flushed_is_there_after_a_power_cut(tmp_path, seed):
    writers = Writers(tmp_path / "a", seed, "true")
    lines = random.Random(seed)
    for _ in range(1 + seed % 2):  # the second finds what the first one has not flushed
        writers.run(lines.randrange(5, 60))
    assert writers.lost() == []
    assert os.listdir(tmp_path / "a/shadow/pages") == os.listdir(tmp_path / "a/shadow/names") == []


def test_what_is_called_flushed_too_early_is_missed(tmp_path):
    lost = []
    for seed in range(20):
        writers = Writers(tmp_path / str(seed), seed, "early")
        writers.run(8 + seed)
        if lost := writers.lost():
            break
    assert lost


def test_the_environment_switches_the_shadow_on(tmp_path, monkeypatch):
    monkeypatch.delenv(SHADOW_FOLDER, raising=False)
    assert type(system_files()) is RealFiles
    monkeypatch.setenv(SHADOW_FOLDER, f"{tmp_path}/shadow")
    assert isinstance(system_files(), ShadowFiles)


def test_a_save_that_was_broken_off_is_left_out(tmp_path):
    """A process that is killed while it saves has not changed anything yet."""
    shadow, path = f"{tmp_path}/shadow", f"{tmp_path}/disk/a"
    files = ShadowFiles(shadow)
    files.make_folder(f"{tmp_path}/disk")
    write_whole(files, path, OLD)
    files.open(path).pwritev([NEW], 0)
    (pages,) = (tmp_path / "shadow/pages").iterdir()
    whole = pages.read_bytes()
    for left in (1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 3, len(whole) - 1):
        pages.write_bytes(whole[:left])
        ShadowFiles(shadow).open(path).pwritev([NEW], 0)
        assert pages.read_bytes() == whole[:PAGE_BYTES] + whole[PAGE_BYTES:][:8] + NEW
    files.unlink(path)
    (names,) = (tmp_path / "shadow/names").iterdir()
    line = names.read_bytes()
    names.write_bytes(line[:9])
    files.open(path, create_bytes=1)
    assert len(names.read_bytes().splitlines()) == 1 and names.read_bytes().endswith(b'"name": "a"}\n')
    names.write_bytes(line[:9])
    power_cut(shadow, 1)
    assert os.listdir(tmp_path / "disk") == ["a"]


def test_a_new_file_does_not_take_over_the_pages_of_a_gone_one(tmp_path, monkeypatch):
    """Files of one number, one after the other; a process was killed when it had removed the first."""
    monkeypatch.setattr("mantamq.store.shadow_files._key", lambda _: "1-1")
    files, pages = ShadowFiles(f"{tmp_path}/shadow"), tmp_path / "shadow/pages/1-1"
    files.open(f"{tmp_path}/a", create_bytes=1).pwritev([NEW], 0)
    saved = pages.read_bytes()
    files.unlink(f"{tmp_path}/a")
    assert not pages.exists()
    pages.write_bytes(saved)
    files.open(f"{tmp_path}/b", create_bytes=1)
    assert not pages.exists()
