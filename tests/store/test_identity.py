"""What a store's directory says of itself: taken, refused, and whole after every crash."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.errors import LocalError, StoreError
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.wire.version import MINOR
from mantamq.store.files import RealFiles, read_whole, write_whole
from mantamq.store.identity import (
    FORMAT,
    StoreDirectory,
    StoreIdentity,
    StoreState,
    look_at_store,
    new_life,
    open_store,
    read_identity,
    stores_in,
    try_directory,
)

from .disks import Fault, Folder, PowerCut, SimulatedFiles, failure

NOW = 1_790_000_000_000
JSON = "/data/b1/store.json"


def begin(opened: StoreDirectory, clock_ms: int = NOW, **changed) -> int:
    return opened.begin(clock_ms, **{"cluster": "c1", "store": "s1", "node": "host-1"} | changed)


def used(files: SimulatedFiles, **changed) -> SimulatedFiles:
    """A directory with the store of b1, which its process has left dirty."""
    begin(open_store(files, "/data", "b1"), **changed)
    files.kill()
    return files


def content(folder: Folder) -> object:
    """All names and bytes."""
    return {
        name: content(node) if isinstance(node, Folder) else bytes(node.shown) for name, node in folder.shown.items()
    }


def refused(files: SimulatedFiles, call: Callable[[], object], code: str, text: str) -> None:
    """The call is refused, and nothing has changed."""
    before = content(files.image())
    with pytest.raises(StoreError, match=text) as raised:
        call()
    assert raised.value.code == code
    assert content(files.image()) == before


# ---- taken


def test_a_new_store():
    files = SimulatedFiles()
    store = open_store(files, "/data", "b1")
    assert store.folder == "/data/b1"
    assert store.identity == StoreIdentity(broker="b1") and store.identity.status is StoreState.EMPTY
    assert not files.exists(JSON)
    life = begin(store)
    assert life == NOW << 7
    files.crash()
    assert read_identity(files, "/data/b1") == store.identity == StoreIdentity(
        store="s1", cluster="c1", broker="b1", status=StoreState.DIRTY, life=life, node="host-1"
    )  # fmt: skip
    assert json.loads(read_whole(files, JSON)) == {
        "format": 1,
        "minor": MINOR,
        "store": "s1",
        "cluster": "c1",
        "broker": "b1",
        "status": "dirty",
        "shutdown": "",
        "life": life,
        "node": "host-1",
        "nodes": {},
    }


def test_a_store_that_is_used_again():
    files = used(SimulatedFiles())
    store = open_store(files, "/data", "b1", cluster="c1")
    first = store.identity
    second = begin(store, NOW + 1, store="s2", node="host-2")
    assert second == first.life + 2 * INCARNATIONS_PER_BROKER > NOW + 1 << 7
    assert (store.identity.store, store.identity.node) == ("s1", "host-2")
    store.close_clean("stop-1")
    store.release()
    store = open_store(files, "/data", "b1")
    assert (store.identity.status, store.identity.shutdown) == (StoreState.CLEAN, "stop-1")
    begin(store, NOW - 10**9)
    assert (store.identity.status, store.identity.shutdown) == (StoreState.DIRTY, "")
    assert store.identity.life > second


def test_a_blank_store_is_blank_until_it_has_joined():
    files = used(SimulatedFiles(), status=StoreState.JOINING)
    store = open_store(files, "/data", "b1")
    begin(store)
    assert store.identity.status is StoreState.JOINING
    with pytest.raises(LocalError, match="joining is not closed as clean"):
        store.close_clean("stop-1")
    store.joined()
    store.close_clean("stop-1")
    assert read_identity(files, "/data/b1").status is StoreState.CLEAN


def test_a_store_that_was_made_and_never_written_to_counts_as_empty():
    files = used(SimulatedFiles(), status=StoreState.FOUNDING)
    found = read_identity(files, "/data/b1")
    assert found.status is StoreState.FOUNDING and found.cluster == "c1"
    assert look_at_store(files, "/data", "b1", cluster="c2") == found and found.counts_as_empty
    store = open_store(files, "/data", "b1", cluster="c2")
    store.begin(NOW - 10**9, cluster="c2", store="s2", node="host-1", status=StoreState.FOUNDING)
    assert (store.identity.store, store.identity.cluster) == ("s1", "c2") and store.identity.life > found.life
    store.joined()
    assert store.identity.status is StoreState.FOUNDING, "it is nobody's word that it has caught up"
    store.founded()
    store.leave()
    store.founded()
    assert store.identity.status is StoreState.LEFT, "of two threads the last word counts"
    store._change(status=StoreState.DIRTY)
    store.release()
    files.crash()
    assert read_identity(files, "/data/b1").status is StoreState.DIRTY
    refused(files, lambda: open_store(files, "/data", "b1", cluster="c1"), "not-our-store", "belongs to the cluster c2")


def test_a_store_that_names_no_cluster_is_that_of_whichever_takes_it():
    files = used(SimulatedFiles())
    store = open_store(files, "/data", "b1")
    store._change(status=StoreState.DIRTY, cluster="")
    store.release()
    assert look_at_store(files, "/data", "b1", cluster="c2").cluster == ""


def test_a_store_that_is_closed_is_closed_again_without_harm():
    """A supervisor that dies in the middle of a stop has a successor, which begins the stop anew."""
    files = used(SimulatedFiles())
    store = open_store(files, "/data", "b1")
    begin(store)
    store.close_clean("stop-1")
    store.close_clean("stop-2")
    found = read_identity(files, "/data/b1")
    assert (found.status, found.shutdown) == (StoreState.CLEAN, "stop-1"), "as the log's last record says"


def test_a_store_keeps_where_brokers_were():
    files = used(SimulatedFiles())
    store = open_store(files, "/data", "b1")
    begin(store)
    store.note_nodes({"b1": "host-1", "b2": "host-2"})
    files.crash()
    assert read_identity(files, "/data/b1").nodes == {"b1": "host-1", "b2": "host-2"}
    before = files.image()
    store.note_nodes({"b1": "host-1", "b2": "host-2"})
    assert content(files.image()) == content(before), "it is written when it changes"


def test_the_store_of_a_broker_that_has_left_does_not_come_back():
    files = used(SimulatedFiles())
    store = open_store(files, "/data", "b1")
    store.leave()
    store.release()
    files.crash()
    assert read_identity(files, "/data/b1").status is StoreState.LEFT
    refused(files, lambda: open_store(files, "/data", "b1"), "not-our-store", "has left the cluster c1: empty")
    new = open_store(files, "/data", "b2")
    new.leave()
    assert not files.exists("/data/b2/store.json"), "there was nothing to leave"


@given(st.integers(1, 2**45), st.lists(st.integers(1, 2**45), min_size=1))
def test_lives_rise_and_leave_room_for_each_others_queues(first, clocks):
    made = [new_life(first, 0)]
    for clock in clocks:
        made.append(new_life(clock, made[-1]))
        assert made[-1] >= made[-2] + INCARNATIONS_PER_BROKER and made[-1] >= clock << 7


def test_the_stores_of_a_directory_are_told():
    files = used(SimulatedFiles())
    for broker in ("b2", "b10"):
        files.make_folder(f"/data/{broker}")
    files.make_folder("/data/lost+found")
    write_whole(files, "/data/b10/store.json", b"{}")
    found = stores_in(files, "/data")
    assert list(found) == ["b1", "b2", "b10"]
    assert found["b1"] == read_identity(files, "/data/b1")
    assert found["b2"] == StoreIdentity()
    assert isinstance(found["b10"], StoreError) and found["b10"].code == "store-damaged"
    assert stores_in(files, "/nothing") == {}
    with pytest.raises(StoreError, match=r"/data/b1/store\.json is not a directory: name one"):
        stores_in(files, JSON)


# ---- refused


def test_of_two_processes_one_is_refused():
    files = SimulatedFiles()
    store = open_store(files, "/data", "b1")
    text = rf"^store-locked: /data/b1/lock is held by b1\.store, process {os.getpid()} on .*: stop that one first"
    refused(files, lambda: open_store(files, "/data", "b1"), "store-locked", text)
    open_store(files, "/data", "b2")  # has a folder of its own
    store.release()
    open_store(files, "/data", "b1")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"format": FORMAT + 1}, rf"newer mantamq \(format {FORMAT + 1}, protocol 1.{MINOR}\)"),
        ({"minor": MINOR + 1}, rf"newer mantamq .*protocol 1.{MINOR + 1}\); this one knows format {FORMAT} and 1.{MINOR}"),
        ({"format": FORMAT + 1, "status": "frozen", "broker": 7}, "run that version, or a newer one"),
    ],
)  # fmt: skip
def test_a_newer_format_is_refused(changed, text):
    files = used(SimulatedFiles())
    write_whole(files, JSON, json.dumps(json.loads(read_whole(files, JSON)) | changed).encode())
    refused(files, lambda: open_store(files, "/data", "b1"), "store-format", text)


def test_fields_that_are_not_known_are_passed_over():
    files = used(SimulatedFiles())
    write_whole(files, JSON, json.dumps(json.loads(read_whole(files, JSON)) | {"colour": "blue"}).encode())
    assert open_store(files, "/data", "b1").identity.cluster == "c1"


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"\xff", b'{"format": "1"}', b'{"format": 1, "status": "tidy"}', b"\0" * 9]
)
def test_what_is_no_identity_is_refused(data):
    files = used(SimulatedFiles())
    write_whole(files, JSON, data)
    refused(
        files, lambda: open_store(files, "/data", "b1"), "store-damaged", "cannot be read .*move the directory away"
    )


def test_logs_without_an_identity_are_no_empty_store():
    files = used(SimulatedFiles())
    files.make_folder("/data/b1/tx")
    files.unlink(JSON)
    text = r"/data/b1 has tx and no store\.json: put the file back"
    refused(files, lambda: open_store(files, "/data", "b1"), "store-damaged", text)


def test_another_brokers_or_clusters_store_is_refused():
    files = used(SimulatedFiles())
    files.rename("/data/b1", "/data/b2")
    text = "/data/b2 is the store of b1: b2 does not use it"
    refused(files, lambda: open_store(files, "/data", "b2"), "not-our-store", text)
    files.rename("/data/b2", "/data/b1")
    text = "/data/b1 belongs to the cluster c1, not to c2: name the directory of this cluster, or an empty one"
    refused(files, lambda: open_store(files, "/data", "b1", cluster="c2"), "not-our-store", text)
    store = open_store(files, "/data", "b1")
    refused(files, lambda: begin(store, cluster="c2"), "not-our-store", text)


def test_a_directory_on_the_network_is_refused():
    files = SimulatedFiles(kind="nfs4")
    text = r"/data is on a network file system \(nfs4\), .*: name a directory on a local disk"
    refused(files, lambda: open_store(files, "/data", "b1"), "store-unusable", text)


class Forbidding(SimulatedFiles):
    """A file system on which nothing may be written."""

    forbids = 0

    def call(self, name: str, path: str) -> Fault | None:
        if self.forbids and name in ("create", "make_folder", "rename", "unlink", "lock", "pwritev"):
            raise failure(self.forbids, path)
        return super().call(name, path)


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.EROFS, "/data/b1.* is on a file system that is mounted read-only: mount it"),
        (errno.EACCES, r"/data/b1.* may not be written by user \d+: give that one the directory"),
        (errno.ENOSPC, "there is no room in /data/b1.*: make some"),
        (errno.EIO, r"/data/b1.* cannot be used \(Input/output error\): check the disk"),
    ],
)
def test_a_directory_that_cannot_be_written_is_refused(number, text, made):
    files = Forbidding()
    files.make_folder("/data")
    if made:
        used(files)
    files.forbids = number
    refused(files, lambda: open_store(files, "/data", "b1"), "store-unusable", text)


@pytest.mark.parametrize("path", ["/data", "/data/b1"])
def test_what_is_no_directory_is_refused(path):
    files = SimulatedFiles()
    if path != "/data":
        files.make_folder("/data")
    files.open(path, create_bytes=1)
    refused(files, lambda: open_store(files, "/data", "b1"), "store-unusable", f"{path} is not a directory: name one")


def test_a_store_that_changed_before_it_was_locked_is_refused():
    class Late(SimulatedFiles):
        late = b""

        def lock(self, path, holder):
            if self.late:
                write_whole(self, JSON, self.late)
            return super().lock(path, holder)

    files = Late()
    data = read_whole(used(files), JSON)
    files.late = b"{"
    with pytest.raises(StoreError, match="cannot be read"):
        open_store(files, "/data", "b1")
    files.late = b""
    write_whole(files, JSON, data)
    open_store(files, "/data", "b1")  # the lock was given back


# ---- crashes


def lives(files: SimulatedFiles, told: list[StoreIdentity]) -> None:
    """A start, a stop and another start; what is true is told when it is."""
    store = open_store(files, "/data", "b1")
    told.append(store.identity)
    begin(store)
    told.append(store.identity)
    store.close_clean("stop-1")
    told.append(store.identity)
    store.release()
    store = open_store(files, "/data", "b1")
    begin(store)
    told.append(store.identity)


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("fault", list(Fault))
def test_whatever_call_fails_the_identity_is_whole_and_lives_rise(fault, new):
    for call in range(1000):
        files = SimulatedFiles(call) if new else used(SimulatedFiles(call))
        told = [read_identity(files, "/data/b1")]
        files.fail(call, fault)
        with suppress(PowerCut, OSError, StoreError):
            lives(files, told)
            break
        files.crash()
        found = read_identity(files, "/data/b1")
        assert found.life >= told[-1].life
        if found.life == told[-1].life and told[-1].status is StoreState.CLEAN:
            assert found.status is StoreState.CLEAN
        assert begin(open_store(files, "/data", "b1")) > max(found.life, told[-1].life)
    assert 25 < call < 100


def test_a_store_on_a_real_disk(tmp_path):
    files = RealFiles()
    store = open_store(files, f"{tmp_path}/data", "b1")
    life = begin(store)
    with pytest.raises(StoreError, match="store-locked"):
        open_store(files, f"{tmp_path}/data", "b1")
    store.close_clean("stop-1")
    store.release()
    assert sorted(os.listdir(tmp_path / "data/b1")) == ["lock", "store.json"]
    assert open_store(files, f"{tmp_path}/data", "b1").identity.life == life


def test_where_nothing_can_be_written_is_known_before_a_store_is_opened(tmp_path):
    for folder in (tmp_path, tmp_path / "a/b"):
        try_directory(str(folder))
    assert os.listdir(tmp_path) == [], "nothing is made"
    file = tmp_path / "file"
    file.touch()
    for folder, text in (
        (file, f"{file} is not a directory"),
        (file / "sub", f"{file} is not a directory"),
        ("/proc/x/y", "/proc cannot be used"),
    ):
        with pytest.raises(StoreError, match=text):
            try_directory(str(folder))


def test_a_directory_that_is_not_ours_may_have_folders_that_are(tmp_path, monkeypatch):
    def refuse(prefix: str, dir: str) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", dir)

    monkeypatch.setattr("mantamq.store.identity.tempfile.mkdtemp", refuse)
    try_directory(str(tmp_path))
    with pytest.raises(StoreError, match=f"{tmp_path} may not be written by user"):
        try_directory(str(tmp_path / "data"))
