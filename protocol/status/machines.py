"""What each machine reports of itself: sequencer, broker, hosted queues, Ownership, tap, page.

States that another program may add to are strings here, and compared with the constants of the room they belong to.
Times that end in `_ms` are in milliseconds, sizes that end in `_bytes` in bytes.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ..wire.majority_frames import Waiting
from .base import StatusStruct


class WaitingStatus(Waiting, array_like=False, frozen=True):
    """A stream without a majority, with `Waiting`'s fields by name."""

    @classmethod
    def of(cls, waiting: Waiting) -> WaitingStatus:
        return msgspec.convert(waiting, cls, from_attributes=True)


# ---- the sequencer


class StreamStatus(StatusStruct, kw_only=True):
    """A stream at the sequencer that leads.

    Attributes:
        end: index of its last entry.
        commit: its commit index.
        ready: its log is adopted, so it takes entries.
        lag: voter that is here -> number of entries that it is behind the end.
        blank: voters that are here and whose logs do not count.
        missing: voters that are not here.
        voters: whose logs count.
        changing: voters behind a change that is not committed yet; none while there is no change.
    """

    end: int
    commit: int
    ready: bool
    lag: dict[str, int]
    blank: list[str]
    missing: list[str]
    voters: list[str]
    changing: list[str]


class DutyStatus(StatusStruct, kw_only=True):
    """The Ownership that passes consume locks on, by the sequencer that leads.

    Attributes:
        name: its peer name.
        turn: how often another was named in this term.
        silent_ms: for how long it has not answered.
    """

    name: str
    turn: int
    silent_ms: int


class BehindStatus(StatusStruct, kw_only=True):
    """A member that flow control is on for.

    Attributes:
        reason: how far it is behind, in words.
        for_ms: for how long.
    """

    reason: str
    for_ms: int


class SequencerStatus(StatusStruct, kw_only=True):
    """A sequencer.

    Attributes:
        ballot: number and uid; the highest of several that believe to lead is the leader's.
        role: a `sequencer.election.Role`.
        members: the voters of the cluster stream.
        leaving: brokers that are on their way out.
        out: broker -> the incarnation up to which it is evicted.
        absent: brokers that are evicted and have not come back.
        seq: place of the last event in the order of the whole cluster.
        flow_stopped: flow control is on.
        flow_stopped_count: how often it has gone on in this term.
        flow: each member that flow control is on for.
        waiting: streams without a majority.
        duty: the Ownership on duty.
        streams: stream -> how it is.
    """

    ballot: list[int]
    role: str
    members: list[str]
    leaving: list[str]
    out: dict[str, int]
    absent: list[str]
    seq: int
    flow_stopped: bool = msgspec.field(name="flowStopped")
    flow_stopped_count: int = msgspec.field(name="flowStoppedCount")
    flow: dict[str, BehindStatus]
    waiting: list[WaitingStatus]
    duty: DutyStatus
    streams: dict[str, StreamStatus]


# ---- the broker


class OfficeStatus(StatusStruct, kw_only=True):
    """The supervisor that a member knows of.

    Attributes:
        name: its actor's name, "" while none has been heard of.
        number: the higher one holds the office.
    """

    name: str
    number: int


class CondemnedStatus(StatusStruct, kw_only=True):
    """A queue whose deletion is asked for and not decided yet.

    Attributes:
        queue: its name.
        by: the broker that asks.
        if_unused, if_empty: the conditions.
        for_ms: for how long.
    """

    queue: str
    by: str
    if_unused: bool
    if_empty: bool
    for_ms: int


class BrokerStatus(StatusStruct, kw_only=True):
    """A broker.

    Attributes:
        broker: its id.
        members: broker -> client address, of those that take clients.
        connections: number of its clients.
        queues: number of queues in the cluster.
        inc: its incarnation.
        blank: it has no wiring yet.
        voters: of the cluster stream.
        leaving: it was asked to leave, and serves no clients any more.
        left: brokers that are known to be out.
        cut_off: its lease is over, so it serves nobody.
        wiring_index: its commit index of the cluster stream.
        uncommitted_bytes: of transfers that have no answer yet.
        withheld_bytes: of transfers that are committed, and not complete while flow control is on.
        unconfirmed_ms: for how long the lease has been over.
        waiting: streams without a majority, as far as a sequencer has said.
        waiting_more: number of those that it has not named.
        waiting_by: that sequencer, "" while none says anything.
        waiting_role: its `sequencer.election.Role`.
        waiting_heard_ms: since it has said so.
        leader_silent_ms: since the last leader's last heartbeat, or since a leader was first waited for.
        sequencers: those that the broker has a link to.
        supervisor: the one it knows of.
        flow_stopped: flow control is on in the cluster.
        flow_stopped_count: how often it has gone on.
        flow: member that flow control is on for -> how far it is behind, in words.
        condemned: queues whose deletion is not decided yet.
        ballot: the highest that it has promised: number and uid.
        leader: the sequencer it follows, "" for none.
        attached: that sequencer leads, and has the broker's log reports.
        replicas: connected queue replica -> ids of the queues it keeps.
        homeless: ids of queues that no replica keeps.
        facts: number of facts that it keeps for the tap; no key without events.
        facts_dropped: number of those that there was no room for.
        returning: it has come back with its log, and has not learned what it has missed, also where it never will:
            no client is let in; no key else.
        stop_left_ms: the cluster is being stopped, and no client let in; if that comes to nothing, the broker goes on
            after this time; no key else.
        queue_limit_bytes: the limit of queues that name none; no key where they have none.
        memory_bytes: what all its processes have; no key before that is measured.
        memory_limit_bytes: the watermark: above it flow control goes on; no key where there is none.
        stored: it has a store, so queues may be durable; no key from a broker before this was asked for.
    """

    broker: str
    members: dict[str, str]
    connections: int
    queues: int
    inc: int
    blank: bool
    voters: list[str]
    leaving: bool
    left: list[str]
    cut_off: bool
    wiring_index: int
    uncommitted_bytes: int
    withheld_bytes: int
    unconfirmed_ms: int
    waiting: list[WaitingStatus]
    waiting_more: int
    waiting_by: str
    waiting_role: str
    waiting_heard_ms: int
    leader_silent_ms: int
    sequencers: list[str]
    supervisor: OfficeStatus
    flow_stopped: bool = msgspec.field(name="flowStopped")
    flow_stopped_count: int = msgspec.field(name="flowStoppedCount")
    flow: dict[str, str]
    condemned: list[CondemnedStatus]
    ballot: list[int]
    leader: str
    attached: bool
    replicas: dict[str, list[str]]
    homeless: list[str]
    facts: int | UnsetType = UNSET
    facts_dropped: int | UnsetType = UNSET
    returning: bool | UnsetType = UNSET
    stop_left_ms: int | UnsetType = UNSET
    queue_limit_bytes: int | UnsetType = UNSET
    memory_bytes: int | UnsetType = UNSET
    memory_limit_bytes: int | UnsetType = UNSET
    stored: bool | UnsetType = UNSET


# ---- queues


class UpdateStatus(StatusStruct, kw_only=True):
    """The last update that brought a replica its messages.

    Attributes:
        messages: number of messages that have come.
        depth: number of messages in the queue when it began.
        began_ms, ended_ms: Unix time; 0 for not yet.
    """

    messages: int
    depth: int
    began_ms: int
    ended_ms: int


class QueueStatus(StatusStruct, kw_only=True):
    """A queue as one of its replicas has it. Counts are of messages, and begin when the queue is declared.

    Attributes:
        messages: number of those that are available, delayed or acquired.
        available: number of those that a consumer can have.
        acquired: number of those that consumers hold.
        dead_lettering: number of dead ones that are on their way to the alternate exchange, and of moved ones.
        bytes: size of all messages in it, encoded.
        owner: the broker that has the consume lock, "" for none.
        grant: number of the last grant of the lock.
        handovers: how often the lock went from one broker to another.
        enqueued: number of all that ever came.
        dequeued: number of all that went, which is the sum of the next five.
        accepted, discarded, dead_lettered, expired, moved: how they went.
        refused: number of the discarded ones that did not come in, at the queue's limit; no key where that cannot be.
        flow_stopped: it holds its producers back; no key where it never does.
        flow_stopped_count: how often it has begun to.
        consumers: number of consumers at this replica's broker.
        applied: index up to which its stream is applied.
        blank: the replica's log does not count.
        update: the last one that came here.
        replica: peer name of the replica.
        durable: it is kept on disk; no key else.
        acquires: how often messages were given to consumers. releases: how often they came back, also since a consumer
            or its broker was gone.
        bytes_in, bytes_out: size of all messages that came in, and of all that went, encoded.
        discarded_ring, discarded_last_value, discarded_purge, discarded_subscriber: number of the discarded ones that
            went since a ring was full, since a newer value came, by `purge`, and since they were rejected where there
            is no alternate exchange; discarded_too_often: since they had come back too often, and there is none;
            duplicates: that did not come in, since a message with their id had come lately; with `refused` these are
            all.
        dead_expired, dead_too_often, dead_pushed_out, dead_deleted: number of those that were set aside for the
            alternate exchange since they had expired, had come back too often, had to make room, or were in it when it
            was deleted; the others there were rejected.
        dissolved: the brokers that know that it is deleted. absent: those that are out of it. No keys else.
        age_ms: for how long the oldest message has been in it, to a second or so; 0 where it is empty.
        delayed: number of those that wait for their time.
    """

    messages: int
    available: int
    acquired: int
    dead_lettering: int
    bytes: int
    owner: str
    grant: int
    handovers: int
    enqueued: int
    dequeued: int
    accepted: int
    discarded: int
    dead_lettered: int
    expired: int
    consumers: int
    applied: int
    blank: bool
    update: UpdateStatus | None
    replica: str
    durable: bool | UnsetType = UNSET
    refused: int | UnsetType = UNSET
    flow_stopped: bool | UnsetType = msgspec.field(name="flowStopped", default=UNSET)
    flow_stopped_count: int | UnsetType = msgspec.field(name="flowStoppedCount", default=UNSET)
    acquires: int = 0
    releases: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    discarded_ring: int = 0
    discarded_last_value: int = 0
    discarded_purge: int = 0
    discarded_subscriber: int = 0
    discarded_too_often: int = 0
    dead_expired: int = 0
    dead_too_often: int = 0
    dead_pushed_out: int = 0
    dead_deleted: int = 0
    age_ms: int = 0
    dissolved: list[str] | UnsetType = UNSET
    absent: list[str] | UnsetType = UNSET
    duplicates: int = 0
    delayed: int = 0
    moved: int = 0


class OwnershipStatus(StatusStruct, kw_only=True):
    """A queue's consume lock as an Ownership knows it.

    Attributes:
        owner: the broker that has it, "" for none.
        grant: number of the last grant.
        interested: brokers with a consumer that has credit, in the order of their ids.
    """

    owner: str
    grant: int
    interested: list[str]


# ---- the tap


class TapStatus(StatusStruct, kw_only=True):
    """The event tap.

    Attributes:
        streams: number of streams that members have facts of.
        untold: streams whose beginning nobody has.
        events: number of events taken.
        dropped: number of events missing from the table, as far as this tap knows.
        directory: where the parts are.
        rows: number of the last row.
        unwritten: number of rows that are in no part yet.
        error: why rows cannot be written now, "" if they can.
    """

    streams: int
    untold: list[str]
    events: int
    dropped: int
    directory: str = ""
    rows: int = 0
    unwritten: int = 0
    error: str = ""


# ---- the page


class ManagementStatus(StatusStruct, kw_only=True):
    """The page, and what is asked for by HTTP.

    Attributes:
        address: "host:port" where it is.
        looks: how often it has looked at the cluster.
        trouble: why it is not where it was to be, "" if it is.
        missed: what its last look did not have -> why.
    """

    address: str
    looks: int
    trouble: str = ""
    missed: dict[str, str] = {}
