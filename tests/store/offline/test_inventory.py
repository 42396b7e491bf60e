"""What is said of a directory's stores, by their control files and headers alone."""

from __future__ import annotations

import pytest
from mantamq.protocol.errors import NOT_OUR_STORE, STORE_DAMAGED, STORE_FORMAT, STORE_UNUSABLE, StoreError
from mantamq.store.files import RealFiles, read_whole, write_whole
from mantamq.store.identity import FILE
from mantamq.store.offline.inventory import folders_in, summary

from ..disks import SimulatedFiles
from .made_up_stores import CLUSTER_ID, CONTAINER_BYTES, DATA, TIME_US, make_store


def test_a_directory_and_one_of_its_stores_are_both_understood():
    files = SimulatedFiles()
    for broker in ("b1", "b2", "b10"):
        make_store(files, broker)
    assert folders_in(files, DATA) == [f"{DATA}/{broker}" for broker in ("b1", "b2", "b10")]
    assert folders_in(files, f"{DATA}/b2") == [f"{DATA}/b2"]


@pytest.mark.parametrize("path", ["/nowhere", "/data/empty"])
def test_where_there_is_no_store_that_is_said(path):
    files = SimulatedFiles()
    files.make_folder("/data/empty")
    with pytest.raises(StoreError, match="mantamq up --data") as error:
        folders_in(files, path)
    assert error.value.code == STORE_UNUSABLE


def test_a_store_is_told_by_its_headers():
    files = SimulatedFiles()
    make_store(files, "b2")
    found = summary(files, f"{DATA}/b2")
    assert (found.broker, found.state, found.cluster, found.holder) == ("b2", "dirty", CLUSTER_ID, "")
    assert found.node == "host-b2" and found.code == ""
    assert [log.log for log in found.logs] == ["tx", "messages"]
    assert [log.oldest_us for log in found.logs] == [TIME_US, TIME_US]
    assert all(log.used_bytes == log.containers * CONTAINER_BYTES for log in found.logs)
    sizes = [
        len(read_whole(files, f"{DATA}/b2/{log}/{name}")) for log in ("tx", "messages") for name in
        files.list(f"{DATA}/b2/{log}")
    ]  # fmt: skip
    assert found.disk_bytes == sum(sizes) == sum(log.used_bytes + log.spare_bytes for log in found.logs)


def test_the_age_is_that_of_what_is_still_needed():
    files = SimulatedFiles()
    make_store(files, "b1")
    from mantamq.store.log.recovery import open_log

    log, found = open_log(files, f"{DATA}/b1/messages")
    last = [one.lsn for one in found][-1]
    log.free_below(last)
    log.close()
    assert summary(files, f"{DATA}/b1").logs[1].oldest_us == TIME_US + 5


@pytest.mark.parametrize("real", [False, True])
def test_a_store_in_use_says_by_whom_and_the_question_disturbs_nobody(tmp_path, real):
    files, data = (RealFiles(), str(tmp_path)) if real else (SimulatedFiles(), DATA)
    directory = make_store(files, "b1", data, release=False)
    for _ in range(2):
        assert "b1.store, process " in summary(files, f"{data}/b1").holder
    directory.release()
    assert summary(files, f"{data}/b1").holder == ""


def test_what_is_wrong_with_a_store_is_told_and_the_others_are_shown():
    files = SimulatedFiles()
    for broker in ("b1", "b2", "b3", "b4"):
        make_store(files, broker)
    write_whole(files, f"{DATA}/b1/{FILE}", b'{"format": 99}')
    files.unlink(f"{DATA}/b2/{FILE}")
    write_whole(files, f"{DATA}/b3/{FILE}", read_whole(files, f"{DATA}/b4/{FILE}"))
    for name in files.list(f"{DATA}/b4/tx"):
        files.unlink(f"{DATA}/b4/tx/{name}")
    found = [summary(files, folder) for folder in folders_in(files, DATA)]
    assert [one.code for one in found] == [STORE_FORMAT, STORE_DAMAGED, NOT_OUR_STORE, ""]
    assert [one.state for one in found] == ["refused", "refused", "refused", "dirty"]
    assert "has no log" in found[3].logs[0].text


def test_nothing_is_written_by_looking():
    files = SimulatedFiles()
    make_store(files, "b1")
    before = {name: files.durable(f"{DATA}/b1/{name}") for name in ("", "tx", "messages")}
    summary(files, f"{DATA}/b1")
    assert before == {name: files.durable(f"{DATA}/b1/{name}") for name in ("", "tx", "messages")}
