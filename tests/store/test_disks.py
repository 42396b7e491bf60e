"""The simulated disk loses what a disk may lose, each kind of it, and nothing else."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mantamq.protocol.errors import StoreError
from mantamq.store.aftermath import PAGE_BYTES
from mantamq.store.files import File, read_whole, write_whole

from .disks import Fault, PowerCut, SimulatedFiles

SEEDS = 60
OLD, NEW = b"o" * PAGE_BYTES, b"n" * PAGE_BYTES


def outcomes(story: Callable[[SimulatedFiles], Hashable], **options: object) -> Counter[Hashable]:
    """What a story ends with, over seeds."""
    return Counter(story(SimulatedFiles(seed, **options)) for seed in range(SEEDS))


def made(files: SimulatedFiles, name: str = "/a", content: bytes = OLD) -> File:
    """A file that is on the disk, name and all."""
    file = files.open(name, create_bytes=len(content))
    file.pwritev([content], 0)
    file.fdatasync()
    files.sync_folder("/")
    return file


# ---- a power cut (and `test_power_cuts.py`)


def test_a_page_that_was_written_twice_may_be_as_in_between():
    def story(files: SimulatedFiles) -> Hashable:
        file = made(files, content=b"old")
        file.pwritev([b"mid"], 0)
        file.pwritev([b"new"], 0)
        files.crash()
        return read_whole(files, "/a")

    assert set(outcomes(story)) == {b"old", b"mid", b"new"}


def test_a_file_that_moves_between_folders_needs_both_flushed():
    def story(files: SimulatedFiles) -> Hashable:
        files.make_folder("/x")
        made(files)
        files.rename("/a", "/x/a")
        files.sync_folder("/x")
        files.crash()
        return files.exists("/a"), files.exists("/x/a")

    assert set(outcomes(story)) == {(True, False), (False, True)}


def test_a_change_that_a_flushed_one_depends_on_is_flushed_with_it():
    def story(files: SimulatedFiles) -> Hashable:
        files.make_folder("/x")
        files.open("/a", create_bytes=1)
        files.rename("/a", "/x/a")
        files.rename("/x/a", "/x/b")
        files.sync_folder("/x")
        files.crash()
        return files.exists("/a"), *files.list("/x")

    assert outcomes(story) == {(False, "x", "b")[::2]: SEEDS}


def test_a_disk_that_lies_loses_what_was_flushed():
    def story(files: SimulatedFiles) -> Hashable:
        write_whole(files, "/a", OLD)
        files.crash()
        return read_whole(files, "/a") if files.exists("/a") else None

    assert {None, OLD} < set(outcomes(story, lies=True))
    assert outcomes(story) == {OLD: SEEDS}


def test_a_process_that_dies_alone_loses_nothing_that_was_written():
    files = SimulatedFiles()
    file = made(files)
    lock = files.lock("/lock", "b1")
    file.pwritev([NEW], 0)
    files.rename("/a", "/b")
    files.kill()
    assert read_whole(files, "/b") == NEW
    with pytest.raises(PowerCut, match="a process opened that is dead"):
        file.pread(1, 0)
    files.lock("/lock", "b2")
    lock.release()
    with pytest.raises(StoreError, match="held by b2"):
        files.lock("/lock", "b3")
    files.crash()
    files.lock("/lock", "b3")


def test_one_seed_is_one_story():
    def story(files: SimulatedFiles) -> Hashable:
        file = made(files, content=OLD * 9)
        file.pwritev([NEW * 9], 0)
        files.open("/d", create_bytes=1)
        files.crash()
        return *files.list("/"), read_whole(files, "/a")

    assert outcomes(story) == outcomes(story)


# ---- calls that fail


def write_and_flush(files: SimulatedFiles) -> None:
    file = files.open("/a")
    file.pwritev([NEW], 0)
    file.fdatasync()


@pytest.mark.parametrize(("fault", "number"), [(Fault.EIO, errno.EIO), (Fault.ENOSPC, errno.ENOSPC)])
def test_a_call_fails(fault, number):
    calls = [
        lambda files: files.open("/a"),
        lambda files: files.open("/b", create_bytes=1),
        lambda files: files.list("/"),
        lambda files: files.make_folder("/b"),
        lambda files: files.exists("/a"),
        lambda files: files.rename("/a", "/b"),
        lambda files: files.unlink("/a"),
        lambda files: files.sync_folder("/"),
        lambda files: files.lock("/lock", "b1"),
        lambda files: files.free_bytes("/"),
        lambda files: made_before.pread(1, 0),
        lambda files: made_before.pwritev([b"x"], 0),
        lambda files: made_before.fdatasync(),
    ]
    for call in calls:
        files = SimulatedFiles()
        made_before = made(files)
        files.fail(0, fault)
        before = files.calls
        with pytest.raises(OSError) as raised:
            call(files)
        assert raised.value.errno == number
        assert files.calls == before + 1
        assert files.list("/") == ["a"] and read_whole(files, "/a") == OLD
        made_before.fdatasync()


def test_a_short_write_leaves_a_part():
    def story(files: SimulatedFiles) -> Hashable:
        file = made(files, content=b"old")
        files.fail(0, Fault.SHORT)
        with pytest.raises(OSError, match="error: '/a'"):
            file.pwritev([b"n", b"ew"], 0)
        return file.pread(9, 0)

    assert set(outcomes(story)) == {b"old", b"nld", b"ned", b"new"}


def test_of_a_failed_creation_nothing_is_left_but_after_a_cut_perhaps():
    for k in range(3):
        for fault in (Fault.EIO, Fault.ENOSPC, Fault.SHORT):
            files = SimulatedFiles()
            files.fail(k, fault)
            with pytest.raises(OSError):
                files.open("/a", create_bytes=1)
            assert files.list("/") == []

    def story(files: SimulatedFiles) -> Hashable:
        files.fail(2, Fault.CRASH_BEFORE)
        with pytest.raises(PowerCut):
            files.open("/a", create_bytes=3)
        files.crash()
        return files.open("/a").size if files.exists("/a") else None

    assert set(outcomes(story)) == {None, 0, 3}


def test_after_a_failed_flush_reading_shows_what_the_disk_may_not_have():
    def story(files: SimulatedFiles) -> Hashable:
        file = made(files)
        file.pwritev([NEW], 0)
        files.fail(0, Fault.EIO)
        with pytest.raises(OSError):
            file.fdatasync()
        assert file.pread(PAGE_BYTES, 0) == NEW
        file.fdatasync()  # which has nothing to do
        files.crash()
        return read_whole(files, "/a")

    assert set(outcomes(story)) == {OLD, NEW}


def test_after_a_failed_flush_a_new_process_may_see_the_old_page():
    def story(files: SimulatedFiles) -> Hashable:
        file = made(files)
        file.pwritev([NEW], 0)
        files.fail(0, Fault.EIO)
        with pytest.raises(OSError):
            file.fdatasync()
        files.kill()
        seen = read_whole(files, "/a")
        files.crash()
        return seen[:1] + read_whole(files, "/a")[:1]

    assert set(outcomes(story)) == {b"oo", b"no", b"nn"}


def test_a_page_that_is_written_again_after_a_failed_flush_is_flushed():
    def story(files: SimulatedFiles) -> Hashable:
        file = made(files)
        file.pwritev([b"m" * PAGE_BYTES], 0)
        files.fail(0, Fault.EIO)
        with pytest.raises(OSError):
            file.fdatasync()
        file.pwritev([NEW], 0)
        file.fdatasync()
        files.crash()
        return read_whole(files, "/a")

    assert outcomes(story) == {NEW: SEEDS}


def test_names_after_a_failed_flush_of_their_folder_may_be_lost():
    def story(files: SimulatedFiles) -> Hashable:
        made(files)
        files.rename("/a", "/b")
        files.fail(0, Fault.EIO)
        with pytest.raises(OSError):
            files.sync_folder("/")
        files.sync_folder("/")
        files.crash()
        return tuple(files.list("/"))

    assert set(outcomes(story)) == {("a",), ("b",)}


@pytest.mark.parametrize(("fault", "found"), [(Fault.CRASH_BEFORE, {OLD, NEW}), (Fault.CRASH_AFTER, {NEW})])
def test_a_cut_before_and_after_a_flush(fault, found):
    def story(files: SimulatedFiles) -> Hashable:
        made(files)
        files.fail(2, fault)
        with pytest.raises(PowerCut):
            write_and_flush(files)
        with pytest.raises(PowerCut, match="after the power cut"):
            files.list("/")
        files.crash()
        content = read_whole(files, "/a")
        return content if content in (OLD, NEW) else OLD

    assert set(outcomes(story)) == found


def test_failures_that_have_not_come_can_be_called_off():
    files = SimulatedFiles()
    made(files)
    files.fail(1, Fault.EIO)
    files.heal()
    write_and_flush(files)


# ---- what befalls a disk


def test_a_disk_runs_full():
    files = SimulatedFiles(capacity_bytes=3 * PAGE_BYTES + 1)
    file = made(files)
    assert files.free_bytes("/") == 2 * PAGE_BYTES + 1
    with pytest.raises(OSError, match="No space left on device: '/b'"):
        files.open("/b", create_bytes=2 * PAGE_BYTES + 1)
    assert files.list("/") == ["a"]
    file.pwritev([NEW], 0)  # in place
    with pytest.raises(OSError, match="No space left"):
        file.pwritev([b"x" * 3 * PAGE_BYTES], 1)
    assert file.size == 3 * PAGE_BYTES and files.free_bytes("/") == 1
    files.unlink("/a")
    files.open("/b", create_bytes=2 * PAGE_BYTES + 1)


def test_a_bit_turns_over():
    found = set()
    for seed in range(SEEDS):
        files = SimulatedFiles(seed)
        files.make_folder("/x/y")
        write_whole(files, "/x/y/a", bytes(5))
        write_whole(files, "/x/b", bytes(5))
        made(files)
        path, offset = files.rot("/x")
        content = read_whole(files, path)
        found.add((path, offset, content[offset]))
        assert [one.bit_count() for one in content if one] == [1]
        files.crash()
        assert read_whole(files, path) == content
    assert {path for path, _, _ in found} == {"/x/y/a", "/x/b"} and len(found) > SEEDS / 2


def test_a_file_is_cut_by_hand():
    files = SimulatedFiles()
    made(files)
    files.shorten("/a", 5)
    assert read_whole(files, "/a") == OLD[:5]
    files.crash()
    assert files.open("/a").size == 5


def test_a_disk_is_replaced_by_an_earlier_copy_or_an_empty_one():
    files = SimulatedFiles()
    files.make_folder("/x")
    write_whole(files, "/x/a", b"old")
    image = files.image()
    write_whole(files, "/x/a", b"new")
    file = made(files)
    files.put_back(image)
    with pytest.raises(PowerCut):
        file.pread(1, 0)
    assert files.list("/") == ["x"] and read_whole(files, "/x/a") == b"old"
    write_whole(files, "/x/a", b"other")
    files.put_back(image)
    files.crash()
    assert read_whole(files, "/x/a") == b"old"
    files.put_back()
    assert files.list("/") == []


# ---- against a model: what was flushed, and what may be there besides


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.sampled_from("wfc"), st.integers(0, 3), st.integers(1, 255)), max_size=30),
)
def test_a_page_has_what_was_flushed_or_what_was_written_since(seed, steps):
    files = SimulatedFiles(seed)
    file = made(files, content=bytes(4 * PAGE_BYTES))
    may_be = [{0} for _ in range(4)]
    shown = [0] * 4
    for step, page, value in steps:
        if step == "w":
            file.pwritev([bytes([value]) * PAGE_BYTES], page * PAGE_BYTES)
            may_be[page].add(value)
            shown[page] = value
        elif step == "f":
            file.fdatasync()
            may_be = [{one} for one in shown]
        else:
            files.crash()
            file = files.open("/a")
            content = file.pread(file.size, 0)
            pages = [set(content[at : at + PAGE_BYTES]) for at in range(0, len(content), PAGE_BYTES)]
            assert all(found <= allowed for found, allowed in zip(pages, may_be, strict=True))
            assert sum(len(found) > 1 for found in pages) <= 1  # one is torn
            if any(len(found) > 1 for found in pages):
                return
            shown = [found.pop() for found in pages]
            may_be = [{one} for one in shown]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(
        st.tuples(st.sampled_from("wwffFkcrs"), st.integers(0, 5 * PAGE_BYTES), st.integers(1, 2 * PAGE_BYTES)),
        max_size=30,
    ),
)
def test_what_is_certain_is_remembered_until_it_changes(seed, steps):
    files = SimulatedFiles(seed)
    file = made(files, content=b"x" * 100)
    content = files._content("/a")
    for step, offset, count in steps:
        if step == "w":
            file.pwritev([files.random.randbytes(count)], offset)
        elif step == "f":
            file.fdatasync()
        elif step == "F":
            files.fail(0, Fault.EIO)
            with pytest.raises(OSError):
                file.fdatasync()
        elif step == "r" and content.shown:
            files.rot()
        elif step == "s":
            files.shorten("/a", offset)
        elif step in "kc":
            (files.kill if step == "k" else files.crash)()
            file = files.open("/a")
        remembered = files.durable("/")["a"]
        content.changed()
        assert files.durable("/")["a"] == remembered
