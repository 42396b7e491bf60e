"""One store becomes a cluster of one: what it is then, a crash at any call, and everything that is refused."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.actors.config import StoreConfig
from mantamq.actors.members.store_logs import StoreLogs
from mantamq.actors.members.store_look import StorePlace, look_at
from mantamq.protocol.errors import (
    NOT_OUR_STORE,
    STORE_DAMAGED,
    STORE_LOCKED,
    STORE_RECOVERING,
    STORE_UNUSABLE,
    StoreError,
)
from mantamq.protocol.log.history import StreamHistory
from mantamq.protocol.store.host import Recovered
from mantamq.protocol.supervisor.store_words import StartWish
from mantamq.protocol.supervisor.stores import ResumeCluster, decide
from mantamq.protocol.wire.events import CLUSTER, DeclareQueue, Enqueue, Member, Return, decode_event
from mantamq.protocol.wire.records import ENTRIES, OPENED, EntriesRecord, OpenedRecord, decode_record
from mantamq.store.files import RealFiles, read_whole
from mantamq.store.identity import FILE, StoreState, open_store, read_identity, stores_in
from mantamq.store.log.chain import read_chain
from mantamq.store.log.reader import LogReader
from mantamq.store.log.recovery import open_log
from mantamq.store.log.scan import Scan
from mantamq.store.log.survey import Survey
from mantamq.store.offline.recover import StoreRecovery
from mantamq.store.offline.verify import Verified, verify
from stored_cluster import StoredCluster

from tests.unit.conversations.test_stored_queues import Receiver, Sender, numbers

from ..disks import Fault, PowerCut, SimulatedFiles
from .made_up_stores import CLUSTER_ID, DATA, MEMBERS, QUEUE, blob, entries, make_store, write

NEW = "a new id"
FOLDER = f"{DATA}/b2"


def recover(files: Any, broker: str = "b2", data: str = DATA) -> StoreRecovery:
    recovery = StoreRecovery(files, data, broker, NEW)
    try:
        recovery.run()
    finally:
        recovery.close()
    return recovery


def three(files: Any, data: str = DATA) -> None:
    for broker in MEMBERS:
        make_store(files, broker, data)


def history(files: Any, folder: str, log: str, stream: str) -> StreamHistory:
    found = StreamHistory()
    for one in Scan(Survey(files, f"{folder}/{log}")):
        if one.stream == stream:
            found.read(one.kind, one.payload)
    return found


def voters_at_end(found: StreamHistory) -> list[str]:
    voters = list(found.voters)
    for _, entry in sorted(found.entries.items()):
        event = decode_event(entry.event)
        if isinstance(event, Member):
            assert not event.present
            voters.remove(event.broker)
    return voters


def add_entries(files: Any, log: str, stream: str, first: int, *events: Any, commit: int = 0) -> None:
    opened, found = open_log(files, f"{FOLDER}/{log}")
    assert list(found)
    write(opened, (ENTRIES, stream, entries(first, *events, commit=commit, seq=20)))
    opened.close()


def judge(files: Any, data: str = DATA) -> None:
    """What a recovery that has come to its end leaves."""
    folder = f"{data}/b2"
    own = read_identity(files, folder)
    assert (own.status, own.cluster, own.broker) == (StoreState.DIRTY, NEW, "b2")
    assert list(stores_in(files, data)) == ["b2"]
    for other in ("b1", "b3"):
        aside = read_identity(files, f"{data}/aside/{NEW}/{other}")
        assert (aside.broker, aside.cluster) == (other, CLUSTER_ID), "moved, and not touched"
    for log, stream in (("tx", CLUSTER), ("messages", QUEUE)):
        found = history(files, folder, log, stream)
        assert found.commit == found.end and voters_at_end(found) == ["b2"], stream
        gone = [decode_event(one.event) for one in found.entries.values()]
        assert [one.broker for one in gone if isinstance(one, Member)] == ["b1", "b3"], "each once"
    assert not [line for one in verify(files, folder) if isinstance(one, Verified) for line in one.wrong]
    kept = history(files, folder, "messages", QUEUE)
    assert kept.checkpoint is not None and kept.checkpoint.extents[:2] == [1, 1]


# ---- what it is then


def test_the_store_is_a_cluster_of_one_and_the_others_are_aside():
    files = SimulatedFiles()
    three(files)
    recovery = recover(files)
    judge(files)
    found = recovery.survivor
    assert (found.voters, found.durable, found.transient) == (MEMBERS, ("orders",), ())
    assert (found.partial, found.hurt, found.unknown) == ((), (), ())
    deed = decide([look_at(files, StoreConfig(data=DATA), StorePlace("b2", "host"))], StartWish()).deed
    assert isinstance(deed, ResumeCluster) and deed.cluster == NEW and not deed.missing and not deed.blank


def test_what_was_not_known_committed_is_kept():
    files = SimulatedFiles()
    three(files)
    add_entries(files, "messages", QUEUE, 3, Enqueue("c", [9, 9], [blob(b"late")]))
    add_entries(files, "tx", CLUSTER, 2, DeclareQueue("late", {}, True))
    recovery = recover(files)
    judge(files)
    assert recovery.survivor.durable == ("late", "orders")
    events = [decode_event(one.event) for one in history(files, FOLDER, "messages", QUEUE).entries.values()]
    assert any(isinstance(one, Enqueue) and one.numbers == [9, 9] for one in events)


def test_a_queue_without_a_record_begins_with_the_survivor_alone():
    files = SimulatedFiles()
    three(files)
    add_entries(files, "tx", CLUSTER, 2, DeclareQueue("new", {}, True), commit=2)
    recover(files)
    found = history(files, FOLDER, "messages", "new#2")
    assert (found.voters, found.end, found.blank) == (["b2"], 0, False)
    assert found.life == found.log_inc == read_identity(files, FOLDER).life, "an earlier life than the next"


def test_transient_queues_are_lost_and_durable_ones_stay():
    files = SimulatedFiles()
    three(files)
    add_entries(files, "tx", CLUSTER, 2, DeclareQueue("scratch", {}, False), commit=2)
    recovery = recover(files)
    assert (recovery.survivor.transient, recovery.survivor.durable) == (("scratch",), ("orders",))
    again = StoreRecovery(files, DATA, "b2", NEW)
    again.close()
    assert again.survivor.transient == () and again.survivor.records == {}


def test_a_change_of_the_voters_that_was_under_way_ends_with_the_survivor():
    files = SimulatedFiles()
    three(files)
    add_entries(files, "messages", QUEUE, 3, Member("b4", 77, True))
    opened, found = open_log(files, f"{FOLDER}/messages")
    list(found)
    opened.close()
    recover(files)
    events = [decode_event(one.event) for one in history(files, FOLDER, "messages", QUEUE).entries.values()]
    gone = [one for one in events if isinstance(one, Member) and not one.present]
    assert [one.broker for one in gone] == ["b1", "b3", "b4"]


def test_who_leaves_is_out_with_all_lives_that_were_ever_known():
    files = SimulatedFiles()
    three(files)
    add_entries(files, "messages", QUEUE, 3, Return("b1", 5_000_000), commit=3)
    recover(files)
    events = [decode_event(one.event) for one in history(files, FOLDER, "messages", QUEUE).entries.values()]
    (gone,) = [one for one in events if isinstance(one, Member) and one.broker == "b1"]
    assert gone.inc > 5_000_000


def test_a_queue_that_was_being_brought_up_to_date_votes_with_what_it_has():
    files = SimulatedFiles()
    three(files)
    opened, found = open_log(files, f"{FOLDER}/messages")
    list(found)
    write(opened, (OPENED, QUEUE, OpenedRecord(1 << 50, 1 << 50, True, list(MEMBERS))))
    opened.close()
    recovery = recover(files)
    assert recovery.survivor.partial == (QUEUE,)
    again = StoreRecovery(files, DATA, "b2", NEW)
    again.close()
    assert again.survivor.partial == ()


def test_damage_in_a_queue_stops_that_queue_and_no_other():
    files = SimulatedFiles()
    three(files)
    add_entries(files, "tx", CLUSTER, 2, DeclareQueue("unseen", {}, True), commit=2)
    rows = [one for one in Scan(Survey(files, f"{FOLDER}/messages")) if one.stream]
    (name,) = [one for one in files.list(f"{FOLDER}/messages") if one[0] == "0"]
    files.flip(f"{FOLDER}/messages/{name}", rows[1].lsn % (32 * 1024) + 60, 1)
    recovery = recover(files)
    assert recovery.survivor.hurt == (QUEUE, "unseen#2"), "all records of the second may have lain there"
    assert recovery.survivor.durable == ()
    assert not history(files, FOLDER, "messages", "unseen#2").life


# ---- on real machines


class FiledDisk:
    """As `ToyDisk`, on the store's own files."""

    def __init__(self, files: SimulatedFiles, broker: str) -> None:
        self.files, self.broker = files, broker
        self.logs: StoreLogs | None = None

    def begin(self, life: int, cluster: str) -> Recovered:
        self.logs = StoreLogs(
            self.files, StoreConfig(data=DATA, container_bytes=1 << 19), StorePlace(self.broker, "host")
        )
        self.logs.begin(cluster, "0b8bdf18-903a-4a54-a5c1-b6e3a279913a", False)
        directory = self.logs.directory
        directory._change(life=life)
        return Recovered(self.logs.found)

    def carry_out(self, commit: Any) -> Any:
        assert self.logs is not None
        return self.logs.commit(commit)

    def advance(self, effect: Any) -> None:
        assert self.logs is not None
        self.logs.advance(effect)

    def read(self, log: str, last: int, checkpoint: int) -> list[Any]:
        reader = LogReader(self.files, f"{DATA}/{self.broker}/{log}")
        found = read_chain(reader, reader.read(last).stream, checkpoint, last)
        return [SimpleNamespace(lsn=lsn, kind=kind, payload=payload) for lsn, kind, payload in found]

    def before(self, log: str, checkpoint: int) -> list[Any]:
        return []

    def cut_power(self) -> None:
        pass  # by the files, for all at once


class FiledCluster(StoredCluster):
    """Its stores are on simulated files."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.files, self.id = files, CLUSTER_ID
        super().__init__()

    def broker(self, name: str, inc: int, blank: bool = False, **options: Any) -> Any:
        files, cluster = self.files, self.id
        disk = FiledDisk(files, name)
        disk.recovered = lambda: disk.begin(inc, cluster)  # type: ignore[attr-defined]
        self.disks[name] = disk  # type: ignore[assignment]
        return super().broker(name, inc, blank, **options)


def names(cluster: FiledCluster, broker: str) -> list[str]:
    return sorted(one.name for one in cluster.machines[broker].wiring.queues())


def test_the_survivor_leads_alone_and_goes_on_with_what_was_declared():
    files = SimulatedFiles(1)
    cluster = FiledCluster(files)
    client = cluster.client("b1")
    for number in range(3):
        assert not client.command("declare_queue", name=f"q{number}", durable=True).code
    assert not client.command("declare_queue", name="scratch").code
    cluster.cut_power("b1", "b2", "b3")
    cluster.kill(*cluster.sequencers())
    files.crash()
    recover(files)
    cluster.members, cluster.id = ["b2"], NEW
    cluster.add_sequencer("sequencer9")
    cluster.come_back("b2")
    for _ in range(30):
        cluster.pass_time(200)
    assert names(cluster, "b2") == ["q0", "q1", "q2"]
    assert cluster.machines["b2"].keeper.voters == ["b2"]
    assert not cluster.client("b2").command("declare_queue", name="after", durable=True).code, "a majority of itself"
    assert names(cluster, "b2") == ["after", "q0", "q1", "q2"]


def test_messages_of_durable_queues_are_there_and_what_others_held_is_given_again():
    files = SimulatedFiles(2)
    cluster = FiledCluster(files)
    sender = Sender(cluster, "b1")
    sender.send(20)
    assert sender.complete == 20
    taken = Receiver(cluster, "b3", credit=5)
    assert taken.got == numbers(1, 5)
    taken.accept()
    held = Receiver(cluster, "b1", credit=3)
    assert held.got == numbers(6, 8), "and not accepted, at a broker that will be no more"
    cluster.pass_time(3000)
    cluster.cut_power("b1", "b2", "b3")
    cluster.kill(*cluster.sequencers())
    files.crash()
    found = recover(files).survivor
    assert found.durable == ("another", "q") and not (found.partial or found.hurt or found.unknown)
    cluster.members, cluster.id = ["b2"], NEW
    cluster.add_sequencer("sequencer9")
    cluster.come_back("b2")
    for _ in range(30):
        cluster.pass_time(200)
    assert Receiver(cluster, "b2").got == numbers(6, 20)
    again = Sender(cluster, "b2")
    again.send(2)
    assert again.complete == 2


def test_without_recovery_the_survivor_serves_nobody():
    """What the test above is worth."""
    files = SimulatedFiles(1)
    cluster = FiledCluster(files)
    assert not cluster.client("b1").command("declare_queue", name="q", durable=True).code
    cluster.cut_power("b1", "b2", "b3")
    cluster.kill(*cluster.sequencers())
    files.crash()
    cluster.members = ["b2"]
    cluster.add_sequencer("sequencer9")
    cluster.come_back("b2")
    for _ in range(30):
        cluster.pass_time(200)
    assert not [s for s in cluster.sequencers() if cluster.machines[s].election.role == "leading"]


# ---- crashes


def forced(files: Any) -> bool:
    """Whether any log of b2 has what only a recovery writes."""
    for log in ("tx", "messages"):
        for one in Scan(Survey(files, f"{FOLDER}/{log}")):
            record = decode_record(one.kind, one.payload)
            if isinstance(record, EntriesRecord):
                if any(isinstance(decode_event(entry.event), Member) for entry in record.entries):
                    return True
    return False


def calls() -> int:
    files = SimulatedFiles()
    three(files)
    before = files.calls
    recover(files)
    return files.calls - before


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_at_any_call_and_run_again_it_finishes(fault):
    for call in range(calls()):
        files = SimulatedFiles(call)
        three(files)
        image = files.image()
        files.put_back(image)  # all flushed
        files.fail(call, fault)
        try:
            recover(files)
        except (PowerCut, OSError, StoreError):
            pass
        files.heal()
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER) or call % 2:
            files.crash()
        else:
            files.kill()
        own = read_identity(files, FOLDER)
        if forced(files):
            assert own.cluster == NEW, (call, "the old cluster would meet entries that it never committed")
        if own.status is StoreState.RECOVERING:
            with pytest.raises(StoreError) as error:
                open_store(files, DATA, "b2")
            assert error.value.code == STORE_RECOVERING and "--from b2" in error.value.text
        recover(files)
        judge(files)


def killed_at(data: str, call: int) -> bool:
    """Recover in a process that kills itself before its so manyth call to the file system; whether it did."""
    child = os.fork()
    if not child:
        left = call

        def counted(real: Any) -> Any:
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
                return real(*args, **kwargs)

            return wrapper

        for name in ("open", "pwritev", "pwrite", "ftruncate", "fdatasync", "fsync", "rename", "unlink", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        try:
            recover(RealFiles(), data=data)
        except BaseException as error:
            sys.__stderr__.write(repr(error))  # type: ignore[union-attr]
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def test_a_real_kill_at_any_call_and_run_again_it_finishes(tmp_path):
    call, killed = 0, True
    while killed:
        data = str(tmp_path / str(call))
        three(RealFiles(), data)
        killed = killed_at(data, call)
        if killed and call % 3 == 0:
            killed_at(data, call // 2)  # and the second attempt, too
        recover(RealFiles(), data=data) if killed else None
        judge(RealFiles(), data)
        call += 5
    assert call > 50


# ---- refusals


def unchanged(files: SimulatedFiles) -> dict[str, Any]:
    folders = ["", *[f"/{b}{log}" for b in MEMBERS for log in ("", "/tx", "/messages") if files.exists(DATA + f"/{b}")]]
    return {one: dict(files.durable(f"{DATA}{one}")) for one in folders}


def lose_clusters_log(files: SimulatedFiles) -> None:
    opened, found = open_log(files, f"{FOLDER}/tx")
    list(found)
    write(opened, (OPENED, CLUSTER, OpenedRecord(1 << 50, 1 << 50, True)))
    opened.close()


def rot_clusters_log(files: SimulatedFiles) -> None:
    (name,) = [one for one in files.list(f"{FOLDER}/tx") if one[0] == "0"]
    files.flip(f"{FOLDER}/tx/{name}", 4096 + 64 + 10, 1)


@pytest.mark.parametrize(
    ("broker", "before", "code", "text"),
    [
        ("b9", None, STORE_UNUSABLE, "stores of b1, b2, b3"),
        ("b2", lambda files: setattr(files, "kind", "nfs4"), STORE_UNUSABLE, "network"),
        ("b2", lambda files: files.lock(f"{DATA}/b2/lock", "b2.store"), STORE_LOCKED, "stop that one first"),
        ("b2", lambda files: files.lock(f"{DATA}/b3/lock", "b3.store"), STORE_LOCKED, "mantamq down"),
        ("b2", lambda files: files.unlink(f"{FOLDER}/{FILE}"), STORE_DAMAGED, "no store.json"),
        ("b2", rot_clusters_log, STORE_DAMAGED, "another store"),
        ("b2", lose_clusters_log, STORE_DAMAGED, "another store"),
        ("b7", lambda files: files.make_folder(f"{DATA}/b7"), STORE_UNUSABLE, "empty"),
    ],
)
def test_what_is_refused_and_then_nothing_is_changed(broker, before, code, text):
    files = SimulatedFiles()
    three(files)
    if before is not None:
        before(files)
    was = unchanged(files)
    with pytest.raises(StoreError, match=text) as error:
        recover(files, broker)
    assert error.value.code == code
    assert unchanged(files) == was


def test_nothing_is_locked_or_changed_before_the_operator_agrees():
    files = SimulatedFiles()
    three(files)
    was = unchanged(files)
    recovery = StoreRecovery(files, DATA, "b2", NEW)
    assert unchanged(files) == was and not files.holder(f"{DATA}/b2/lock")
    used = open_store(files, DATA, "b1")  # while the operator thinks about it
    with pytest.raises(StoreError, match="mantamq down") as error:
        recovery.run()
    assert error.value.code == STORE_LOCKED
    recovery.close()
    used.begin(1, cluster=CLUSTER_ID, store="", node="host-1")
    used.release()
    with pytest.raises(StoreError, match="was used since it was read") as error:
        recovery.run()
    recovery.close()
    assert sorted(stores_in(files, DATA)) == list(MEMBERS), "nothing was moved aside"
    assert read_identity(files, FOLDER).cluster == CLUSTER_ID


def test_a_directory_that_is_not_there_is_refused():
    with pytest.raises(StoreError, match="no store") as error:
        recover(SimulatedFiles())
    assert error.value.code == STORE_UNUSABLE


def test_a_store_under_another_brokers_name_is_refused():
    files = SimulatedFiles()
    make_store(files, "b1")
    files.rename(f"{DATA}/b1", f"{DATA}/b2")
    with pytest.raises(StoreError) as error:
        recover(files)
    assert error.value.code == NOT_OUR_STORE


def test_a_recovery_that_was_begun_from_one_is_not_taken_up_from_another():
    files = SimulatedFiles()
    three(files)
    begun = open_store(files, DATA, "b3")
    begun.recovering(NEW)
    begun.release()
    with pytest.raises(StoreError, match="--from b3") as error:
        recover(files)
    assert error.value.code == STORE_RECOVERING


def test_others_are_moved_aside_also_where_they_are_damaged():
    files = SimulatedFiles()
    three(files)
    files.unlink(f"{DATA}/b3/{FILE}")
    was = read_whole(files, f"{DATA}/b3/tx/{files.list(f'{DATA}/b3/tx')[0]}")
    recover(files)
    assert read_whole(files, f"{DATA}/aside/{NEW}/b3/tx/{files.list(f'{DATA}/aside/{NEW}/b3/tx')[0]}") == was
