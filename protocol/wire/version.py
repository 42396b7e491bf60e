"""Which versions of the protocol can talk to each other.

The major version is the first byte of every frame: another one is refused at once, by either side. The minor version
rises when kinds of frames or events, or fields at the end of one, are added; both sides state it when a link opens. Any
two minors of one major work together: a program skips kinds and fields newer than itself, and fields that an older
program does not send keep their defaults.
"""

from __future__ import annotations

from ..errors import WRONG_VERSION, PeerError

MAJOR = 1
MINOR = 12
"""1: `FlowControl`, and versions and incarnations told at the opening of peer links.
2: all that was added since the first trial from outside, each explained where it is defined:
`Waits`, `Fetch.most_bytes`, `Open.rescue`, `Lost` with `Reset`. `Supervise`, `Supervised`: the supervisor in office, by
a number that rises. `Completed.unroutable`, `AttachSender.mandatory`. `Flow.sure`,
`AttachReceiver.before`. `InUse`, `Condemn`, `Lift`, `Recount`, and the asker's fields in `DeleteQueue`: conditions of
a deletion. A member before 2 reports no consumers and holds no completions, so while one is in the cluster
(`Heartbeat.older`) a deletion on a condition is refused; a broker whose wiring came from one lacks the uses, and
`Recount` has them ordered again.
`Attached.queue`: the id of a receiver's queue.
`Heartbeat.duty`, `Heartbeat.turn`, `Contended.ballot`, `Contended.turn`: which Ownership is on duty.
3: the frames between a keeper's process and its broker's store (`store_frames.py`); they never leave a broker's own
processes, which are of one version. `LogReport.minor` and `Update.minor`, so that an updater knows what its updatee
reads; `QueueSnapshot.marks`. `over` in `LogReport` and `UpdateStart`: a keeper before 3 drops no request numbers, and a
sequencer before 3 takes the requests of processes that are over. `life`, `opened`, `lives`, `stored` and
`whole` in `LogReport`, `life` and `opened` in `Promise`, `UpdateStart.lives`, `Evicted.forget`, `Return`: a log may be
older than its process. `UpdatePiece`, and the number of an update in `UpdateStart` and `UpdateTaken`. `UpdateHave`.
`Pressed`; `Host.durable`; `even_durable` in `Lost` and `Reset`.
4: `Blocked`, `Opened.blocked`: a client before 4 that may not send is not read.
5: `Request.patient`: a sequencer before 5 has no patience.
6: `Heartbeat.least`; queues with limits, which a member before 6 would apply as if they had none: while one is in the
cluster they are refused, as are other kinds of queues. `Enqueue.traits`; `dropped` in `EnqueueFact`, `EventFact`.
7: queues that refuse messages or hold producers back, with `Judge` and `Judged` between processes of one version;
refused while a member before 7 is in the cluster, which would take all; so would it in a ring by bytes that is there
already, for a message larger than the ring. `HeldBack`. `AttachReceiver.selector`,
`Consume.selector`: a client attaches no receiver with a selector at a broker before 7, and leaves one that it has come
to. What a selector passes over concerns nobody but its consumer's broker, so members before 7 may be in the cluster.
8: `earlier` in `LogReport` and `Promise`: of an old log whose lives are not said, only the last one is looked at.
Queues whose levels have shares, which a member before 8 would give by the level alone; `QueueSnapshot.turn`.
x-match all-with-x and any-with-x, which a member before 8 would refuse: while one is in the cluster all do.
`to_exchange` in `Bind` and `Unbind`, refused while a member before 8 is in the cluster.
`QueueSnapshot.tallies`: what an updater before 8 has counted begins anew with its updatee.
`AttachReceiver.exclusive`, `InUse.claim`, `InUse.life`: a member before 8 would admit others beside an exclusive
receiver, so while one is in the cluster those are refused; a client with one leaves a broker that knows none.
`AttachReceiver.priority`, `Consume.priority`: what other brokers do is not changed by them.
`Modify`, with `Settle.modification`, `Dispose.modification`, `QueueSnapshot.uncounted` and `annotations`: while a
member before 8 is in the cluster, which would pass over it, nothing is modified. `Consume.undeliverable`, and
`AttachReceiver.undeliverable`.
Arguments of exchanges that mean something, and exclusive bindings, which a member before 8 would keep and not act upon:
refused likewise. Queues that stamp their messages, which a member before 8 would deliver without: refused likewise.
`Drained.available`, `FlowDrained.available`: -1 from a broker before 8. `Transfer.several`, not sent to such a one.
`Pressed.memory`, with `Resident` between processes of one version: a sequencer before 8 holds nobody back for it.
`FlowStopped`. Queues that destroy themselves, with `Judged.over` between processes of one version, and
`DeleteQueue.id`; refused while a member before 8 is in the cluster.
`FellowsAsked`, `FellowTold`: a broker before 8 does not answer, and a sequencer before 8 passes nothing on.
`InUse.place`, `Open.life`: queues with a single active consumer, refused while a member before 8 is in the cluster.
9: `AttachReceiver.no_local`, `Consume.own`, and who sent a message: `QueueSnapshot.origins` with `origin_runs`, and
`origins` with `origin_of` in `Enqueue` and `DeadLetter`. A member before 9 passes nothing of that on, to a copy that it
updates or with dead letters, so while one is in the cluster receivers with no_local are refused; a client with one
leaves a broker that knows none.
`Enqueue.at_ms`, `QueueSnapshot.times`, `Deliver.times`, `Delivery.times`: of what comes by way of a member before 9 it
is not known when it came, nor of what a queue held that was brought up to date by one.
10: exchanges that number or keep what goes through them, each with a queue of its own whose messages go on by
themselves (`queue/relay.py`); `first`, `keys`, `expiry` and `wired` in `DeadLetter`, `DeadLetterDone.wired`,
`Counters.wired`: a member before 10 would neither send nor apply as much, so while one is in the cluster such exchanges
are refused. `Facts.after`: of a source before 10, which was asked, and another, and it again, what was on its way
meanwhile is taken for its answer.
11: `Opened.cluster`: a client goes on at a broker before 11 whatever its cluster is. Dead letters of every cause, with
`QueueSnapshot.causes`: a member before 11 would discard what expires, so while one is in the cluster queues are
declared without that, and limits of deliveries, keys of dead letters, and what a limit sends to the alternate are
refused.
Queues that go when nobody uses them any more, with `DeleteQueue.vacant`, which a member before 11 would pass over and
delete a queue that is used: refused while one is in the cluster. `fresh` of declare_queue, which a broker before 11
refuses. `Exclusive`, and `client` with what follows it in `DeclareQueue`: a member before 11 would let others at a
queue that one client has for itself: refused likewise.
12: `client` in `DeleteQueue`, `Bind` and `Unbind`: a member before 12 would carry them out whosever the queue is, so
while one is in the cluster they go without, and only the broker that is asked looks whose it is, as far as it knows.
What a deleted queue still holds goes to its alternate: `DeleteQueue.aside`, `Dissolve`, `Dissolved`, and
`QueueSnapshot.dissolved`: a member before 12 would drop the queue at once, so while one is in the cluster all do.
Queues that take each message id once in a window, with `QueueSnapshot.ids` and `id_times`, which a member before 12
would take every time: refused while one is in the cluster.
Queues whose messages expire by the queue's own time, which a member before 12 would keep, and queues that go when
nobody has used them for long, or end consumers that hold messages for long, which such a member would not know of:
refused while one is in the cluster; `WiringSnapshot.idle`; `HeldTooLong` between processes of one version.
`PutPolicy` and `DropPolicy`: a member before 12 would declare queues without what their policies say, so while one
is in the cluster there are none. They change queues that are there by `Configure`, with `Enqueue.judged` and
`QueueSnapshot.configured`.
`PutPattern` and `DropPattern`: a member before 12 would pass none of them on to a broker that it updates, so while one
is in the cluster there are none. `AttachReceiver.back`: a client before 12 does not say it, and one that has come back
finds no queue made for it.
`Transfer.delays`, `Enqueue.delays`, `Modification.delay_ms`, `Modify.due_ms`, `Due`, `QueueSnapshot.delayed`: a member
before 12 would give delayed messages at once, so while one is in the cluster nothing is delayed. Queues with a delay
for what comes back, with `Release.at_ms` and `Modify.at_ms`: refused likewise.
Queues that go with their last consumer only when nothing is in them, which a member before 12 would delete with what is
in them: refused while one is in the cluster; `Emptied` between processes of one version.
`Move` and `Moved`, with `QueueSnapshot.move_targets` and `moves`, and `Counters.moved`: a member before 12 would pass
over them, so while one is in the cluster nothing is moved. `QueueCommand.move` and `DeadLettered.back` between
processes of one version.
`Open.cluster` and `Open.wired`, with `wired` in `Opened`, `Attached` and `Reply`: a broker before 12 lets a client in
that knows more of the wiring than it does, and one before 12 does not say what it knows.
`Redirect`, and `WiringSnapshot.redirects`: a member before 12 would pass over it and route otherwise: refused likewise.
`Named`, `AttachSender.name`, `QueueSnapshot.named` and `holders`: a member before 12 would keep a named sender's number
as any other's: refused likewise, and a client with one leaves a broker that knows none. `AttachSender.queue`.
`SenderNamed`, and `QueueCommand.sender`, between processes of one version."""
KNOWS_WHO_ASKS = 12
"""The minor version from which members look where an event applies whether the client that asks may ask that."""
KNOWS_DISSOLVED = 12
"""The minor version from which a member keeps a deleted queue until its messages have gone to its alternate."""
KNOWS_NAMED_SENDERS = 12
"""The minor version from which a member keeps the numbers of named senders."""
KNOWS_LIFETIMES = 12
"""The minor version from which members keep a queue that goes when it is empty while it is not."""
KNOWS_DEDUPLICATION = 12
"""The minor version from which a member's queues look at the ids of messages."""
KNOWS_TIMES = 12
"""The minor version from which a member knows how long a queue's messages live, and since when nobody uses it."""
KNOWS_POLICIES = 12
"""The minor version from which a member gives queues what their policies say."""
KNOWS_PATTERNS = 12
"""The minor version from which members keep patterns of queues and exchanges, and brokers make these."""
KNOWS_REDIRECTS = 12
"""The minor version from which a member routes what is sent to a queue into another."""
KNOWS_DELAYS = 12
"""The minor version from which members keep delayed messages from consumers until they are due."""
KNOWS_DEAD_LETTERS = 11
"""The minor version from which a member sets messages aside for the alternate that nobody has rejected."""
KNOWS_MADE_NAMES = 11
"""The minor version from which a broker makes names of queues."""
KNOWS_AUTO_DELETE = 11
"""The minor version from which members know since when a queue that goes by itself is used by nobody."""
KNOWS_RELAYS = 10
"""The minor version from which members send what an exchange numbers or keeps through its queue."""
KNOWS_NO_LOCAL = 9
"""The minor version from which members keep who sent a message, and a broker keeps a client's own from its receiver."""
KNOWS_SEVERAL_KEYS = 8
"""The minor version from which a broker routes a message by several keys."""
KNOWS_SEQUENCES = 8
"""The minor version from which a member stamps what it delivers from such a queue."""
KNOWS_EXCHANGES = 8
"""The minor version from which a member acts upon the arguments of exchanges, and exclusive bindings."""
KNOWS_MOVES = 12
"""The minor version from which a member applies `Move`."""
KNOWS_MODIFY = 8
"""The minor version from which a member applies `Modify`, and a broker takes one from a client."""
KNOWS_EXCLUSIVE = KNOWS_RANKS = KNOWS_LINES = 8
"""The minor versions from which a member lets a consumer have a queue alone, a broker knows priorities of consumers,
and members know which of a queue's consumers is first in line."""
KNOWS_SHARES = 8
"""The minor version from which a member counts how much of its share a level has used."""
KNOWS_LINKS = 8
"""The minor version from which a member binds exchanges to exchanges."""
KNOWS_WITH_X = 8
"""The minor version from which a member applies bindings whose x-match ends with -with-x."""
KNOWS_SELF_DESTRUCT = 8
"""The minor version from which a member's queues may destroy themselves."""
KNOWS_STOPPED = 8
"""The minor version from which a client reads `FlowStopped`."""
KNOWS_VERDICTS = 7
"""The minor version from which a member's queues may refuse messages, and a client reads `HeldBack`."""
KNOWS_SELECTORS = 7
"""The minor version from which a broker gives a receiver only what its selector wants."""
KNOWS_LIMITS = 6
"""The minor version from which a member applies a queue's limits."""
KNOWS_BLOCKED = 4
"""The minor version from which a client reads `Blocked`."""
KNOWS_MARKS = KNOWS_PIECES = 3
"""The minor versions from which a program reads `QueueSnapshot.marks`, and `UpdatePiece`."""


def spoken(minor: int = MINOR) -> str:
    """A version of this major as text, for example "1.2"."""
    return f"{MAJOR}.{minor}"


def wrong_major(found: int) -> PeerError:
    """`wrong-version`: a frame began with another major version; or there was no frame at all."""
    return PeerError(
        WRONG_VERSION,
        f"protocol {MAJOR}.x is spoken here and every frame begins with the byte {MAJOR}, this one with {found}: run "
        "the same major version of mantamq at both ends, and check that the address is a Manta's",
    )
