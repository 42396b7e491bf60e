"""Wirings by chance: events of the cluster stream, valid and invalid ones, and the contents that they make."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from hypothesis import strategies as st
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.wire.events import (
    CLUSTER,
    AnyEvent,
    Bind,
    Condemn,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Entry,
    Evict,
    FlowControl,
    InUse,
    Lost,
    Member,
    Recount,
    Rejoin,
    Supervise,
    Unbind,
    decode_event,
    encode_event,
)
from mantamq.protocol.wire.log_frames import Append, UpdateStart
from mantamq.protocol.wire.policy_events import DropPolicy, PutPolicy
from mantamq.protocol.wire.records import CheckpointRecord
from mantamq.protocol.wiring.definitions import canonical
from mantamq.protocol.wiring.snapshot import ClusterOutline
from mantamq.protocol.wiring.wiring import Wiring

BROKERS = ("b1", "b2", "b3", "b4")
WORDS = ("orders", "o rders", "注文", "'; DROP TABLE queues; --", "q" * 255, "🐟" * 255)
KEYS = ("", "a.*", "\0", "\\0", "\\\0\\\\", "%s :id {}", "line\nline", "k" * 255)
EXCHANGES = ("amq.topic", "amq.match", "", "spare", "news", "交換")

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("a", "$", "$$x", "$bytes", '"$', "\0", "x-match")), inner, max_size=3)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(("limit", "$bytes", "$$bytes", "ü", "\\", "\0")), values, max_size=3)
words, keys, exchanges = st.sampled_from(WORDS), st.sampled_from(KEYS), st.sampled_from(EXCHANGES)
brokers, incs = st.sampled_from(BROKERS), st.integers(0, 3) | st.integers(2**52, 2**53)
# The ids of queues that were declared by one of the first entries: some are there.
ids = st.builds(lambda word, index: f"{word}#{index}", words, st.integers(1, 30))
limits = st.fixed_dictionaries({"qpid.max_count": st.integers(1, 3)})
alternates = st.sampled_from(("", "", "spare", "amq.fanout"))

events: st.SearchStrategy[AnyEvent] = st.one_of(
    st.builds(DeclareQueue, words, arguments, st.booleans(), alternates),
    st.builds(DeclareQueue, words, arguments, st.booleans(), alternates),
    st.builds(DeclareExchange, exchanges, st.sampled_from(("topic", "fanout", "direct", "headers")), arguments,
              st.booleans(), alternates),
    st.builds(Bind, exchanges, words, keys, arguments),
    st.builds(Bind, exchanges, words, keys, arguments),
    st.builds(Bind, exchanges, st.just(""), keys, arguments, exchanges),
    st.builds(DeleteQueue, words),
    st.builds(DeleteExchange, exchanges),
    st.builds(Unbind, exchanges, words, keys),
    st.builds(Lost, ids),
    st.builds(InUse, ids, brokers, incs, st.booleans()),
    st.builds(InUse, ids, brokers, incs, st.booleans(), st.sampled_from(("", "c/1", "c/2")), st.integers(0, 3)),
    st.builds(InUse, ids, brokers, incs, st.booleans(), words, st.integers(0, 3), st.integers(1, 3)),
    st.builds(Condemn, ids, brokers, incs, incs, st.booleans(), st.booleans()),
    st.builds(FlowControl, brokers, st.booleans(), st.text(max_size=5)),
    st.builds(Evict, brokers, incs),
    st.builds(Rejoin, brokers, incs),
    st.builds(Member, brokers, incs, st.booleans()),
    st.builds(PutPolicy, st.sampled_from(("p", "r")), st.sampled_from(("o", "q", ".")), limits, st.integers(0, 1),
              st.booleans()),
    st.builds(DropPolicy, st.sampled_from(("p", "r")), st.booleans()),
    st.builds(Supervise, st.integers(0, 9), words, words),
    st.just(Recount()),
)  # fmt: skip


class Broker:
    """One broker's cluster stream, all of whose entries are committed at once: its keeper and its wiring."""

    def __init__(self) -> None:
        self.keeper = Keeper(CLUSTER, "b1", 1, voters=["b1", "b2", "b3"])
        self.wiring = Wiring()
        self.queue_voters: dict[str, list[str]] = {}

    def apply(self, entries: Sequence[Entry]) -> None:
        """Apply the next entries, one after the other: a queue's first voters are those at its own place."""
        keeper = self.keeper
        for entry in entries:
            append = Append((1, 1), CLUSTER, keeper.end, keeper.end_ballot, keeper.end + 1, 0, [entry])
            committed, refusal = keeper.append(append)
            assert refusal is None and committed == [entry]
            outcome = self.wiring.apply(decode_event(entry.event), keeper.commit)
            if outcome.changed and outcome.queue is not None and self.wiring.by_id(outcome.queue.id):
                self.queue_voters[outcome.queue.id] = list(keeper.voters)
        self.queue_voters = {id: v for id, v in self.queue_voters.items() if self.wiring.kept(id)}

    def contents(self) -> CheckpointRecord:
        """The checkpoint of the cluster stream at its last entry."""
        keeper = self.keeper
        outline = msgspec.msgpack.encode(ClusterOutline(self.wiring.snapshot(), self.queue_voters))
        return CheckpointRecord(
            low=4096, live_bytes=0, life=7, log_inc=1, blank=False, index=keeper.commit, ballot=keeper.end_ballot,
            seq=keeper.end_seq, numbers=dict(keeper.numbers), incs=dict(keeper.incs), voters=list(keeper.voters),
            lives=dict(keeper.lives), commit=keeper.commit, outline=outline, behind=[4096, 8192], over=dict(keeper.over),
        )  # fmt: skip

    @classmethod
    def restored(cls, contents: CheckpointRecord) -> Broker:
        """A broker that begins with the catalogue."""
        broker = cls()
        keeper = broker.keeper = Keeper(CLUSTER, "b1", 1, blank=True)
        keeper.restore(update_of(contents))
        keeper.blank = contents.blank
        outline = outline_of(contents)
        broker.wiring = Wiring.restore(outline.wiring)
        broker.queue_voters = dict(outline.queue_voters)
        return broker


def update_of(contents: CheckpointRecord) -> UpdateStart:
    return UpdateStart(
        CLUSTER, "", "b1", contents.index, contents.ballot, contents.seq, contents.numbers, contents.incs,
        None, contents.voters, [], contents.ballot, contents.seq, contents.over, contents.lives,
    )  # fmt: skip


def entries_of(many: Sequence[AnyEvent]) -> list[Entry]:
    """The events as entries: requests of brokers, but for those that are the sequencer's own."""
    own = (Member, Rejoin, Evict)
    return [
        Entry((1, 1), index, "" if isinstance(event, own) else f"b{index % 3}", 5, index // 2, encode_event(event))
        for index, event in enumerate(many, 1)
    ]


def broker_of(many: Sequence[AnyEvent]) -> Broker:
    broker = Broker()
    broker.apply(entries_of(many))
    return broker


def numbered(count: int) -> CheckpointRecord:
    """Contents that say everywhere which number they have: `count` queues of its own with their bindings."""
    many: list[AnyEvent] = [DeclareExchange(f"exchange {count}", "topic", {"number": count})]
    for index in range(count % 7, count % 7 + 20):
        many.append(DeclareQueue(f"queue {index}", {"number": count}, True, f"exchange {count}"))
        many.append(Bind(f"exchange {count}", f"queue {index}", f"key {count}", {}))
    contents = broker_of(many).contents()
    return msgspec.structs.replace(contents, index=count, seq=count)


def outline_of(contents: CheckpointRecord) -> ClusterOutline:
    return msgspec.msgpack.decode(contents.outline, type=ClusterOutline)


def exactly(contents: CheckpointRecord | None) -> bytes:
    """Bytes that are equal for equal checkpoints only: 1, 1.0 and True differ, and so do the orders of lists."""
    if contents is None:
        return b""
    outline = canonical(msgspec.msgpack.decode(contents.outline))
    return canonical(msgspec.structs.replace(contents, outline=outline))
