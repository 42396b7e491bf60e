"""The times that the machines keep, and the inequalities between them: one frozen value, handed to every machine.

A broker serves for less than the silence it is evicted for, so that another owner never serves beside it for long
(`sequencer.md` B4); a leader's silence is suspected only after several of its beats are missing; a supervisor stops to
act before the brokers let another take its place. `RULES` says all of these, and a `Timing` that breaks one is refused.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .errors import LocalError


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """All times that machines of one cluster wait or count by.

    Raises:
        LocalError: it breaks one of `RULES`.
    """

    # ---- the sequencer's heartbeats, and who is taken for dead

    heartbeat_ms: int = 250
    """How often the leading sequencer says that it leads, and a broker looks at it."""
    broken_ms: int = 250
    """The grace after a link breaks: long enough for a few redials, when only the link broke."""
    suspect_ms: int = 2000
    """A leader, or the Ownership on duty, silent for longer is suspected; one without a link after `broken_ms`."""
    lease_ms: int = 2000
    """How long a broker may serve clients after a beat that a majority has answered."""
    evict_ms: int = 3000
    """A broker silent for longer is evicted, while a majority answers."""
    keepalive_ms: int = 1000
    """How often each end of a link between members sends a sign of life."""
    keepalive_patience_ms: int = 4000
    """A link between members that is silent for longer is closed, so that both ends soon know of a dead link."""

    # ---- links

    opening_ms: int = 5000
    """A link must be opened within this time."""
    connect_ms: int = 3000
    """How long a dial waits for an answer. Packets that vanish refuse nothing: the kernel alone would go on for two
    minutes, with ever longer pauses."""
    redial_ms: int = 50
    """The longest wait before a peer is dialled again for the first time; each next one may be twice as long."""
    redial_most_ms: int = 2000
    """The longest wait between two dials."""
    link_lived_ms: int = 250
    """A link that was up for this long was good; one that died sooner was turned away."""
    refusal_ms: int = 10_000
    """`status` names a refusal of a peer for this time."""

    # ---- a new sequencer

    suspicion_ms: int = 1000
    """How long a broker's suspicion of the leader counts: brokers repeat it every beat."""
    prepare_ms: int = 500
    """How often the brokers that have not promised are asked again."""
    recovery_grace_ms: int = 100
    """How long a recovery quorum waits for the others that are linked, so that they need no update afterwards."""

    # ---- the log

    lazy_ms: int = 10
    """How long a keeper that does not act on commits may wait for what others are told at once: the commit index, and,
    if the eager ones and it are more than a majority, entries too. Three replicas that work at the same time on two
    cores delay the one a consumer waits for; and what waits goes out in larger batches."""
    patience_ms: int = 6
    """How long entries that nobody waits for, such as accepts, wait at most for others to go to the keepers with; and
    they do where two of those have come within twice this time."""
    acknowledge_ms: int = 2
    """How long an acknowledgement to the sequencer may wait when the distinguished learner is told at once."""
    update_retry_ms: int = 2000
    """How long a blank keeper waits for a sign of its update before another updater is asked for."""
    backlog_look_ms: int = 50
    """How often the sequencer looks at most whether a member is too far behind."""
    backlog_patience_ms: int = 10_000
    """A member that has kept flow control on for this long is waited for no longer."""
    letters_wait_ms: int = 15_000
    """How long dead letters wait for flow control to go off: it is on for another reason then than who is behind."""

    # ---- the store

    store_quiet_ms: int = 1000
    """A log that got nothing for this time gets an empty batch, which proves that the last one was flushed."""
    store_patience_ms: int = 30_000
    """A store silent for longer is taken for dead by its broker and their replicas: a disk may stall, and a member that
    is slow is not dead."""

    # ---- streams without a majority

    majority_look_ms: int = 1000
    """How often a sequencer looks which streams lack a majority, and tells the brokers."""
    majority_noted_ms: int = 1000
    """A stream without its majority for less is no news: a takeover takes some of that."""
    lost_ms: int = 10_000
    """A voter missing for this long is not waited for, when no other voter has anything of a queue."""
    reset_ms: int = 3000
    """A reset is not refused before, if the reason may be that a voter has not spoken yet."""
    waits_kept_ms: int = 5000
    """How long a broker holds on to what it has been told of waiting streams by a sequencer that says no more."""
    waits_recent_ms: int = 1000
    """A sequencer's word on waiting streams that is older counts for no more than that of any other sequencer."""
    question_waits_ms: int = 2000
    """How long a broker's question to a queue waits where it is known that the queue has no majority."""
    question_ms: int = 5000
    """How long a list waits for one of its queues, and a deletion on a condition for its queue, whatever the reason."""

    # ---- queues and their consume locks

    replica_keepalive_ms: int = 1000
    """How often a broker and its replica send each other a sign of life."""
    replica_patience_ms: int = 3000
    """A replica silent for longer is taken for dead by its broker: it may hold consume locks, and stand still."""
    auto_delete_rank_ms: int = 1000
    """A queue whose consumers have left it for long enough is deleted by the first broker; each next one waits this
    much longer, in case it is gone."""
    dissolve_ms: int = 10_000
    """For so long a deleted queue waits for the word of a broker that is out of it: by then it is known whether the
    broker is, or only the replica that it had."""
    lock_idle_ms: int = 200
    """An owner whose consumers have had no credit for this time gives the lock up even if no other broker wants it."""
    first_duty_ms: int = 10_000
    """How long the first Ownership is waited for when the cluster begins, before the other is taken."""
    ownership_alone_ms: int = 3000
    """An Ownership that has not answered for this long, and is still on duty, is the only one: `status` says so."""
    acquire_ms: int = 2
    """How long acquires wait behind their deliveries, unless their consumer settles anything or gives the lock up. So a
    consumer that settles at once costs one round of ordering instead of two, and no acquire competes with a delivery
    for a core."""
    resume_unseen_ms: int = 4000
    """A consumer from another broker waits this long for messages that may have been on their way to it, or to others:
    as long as an eviction takes."""
    resume_held_ms: int = 7000
    """A consumer from another broker waits this long for messages that it knows it held: as long as an eviction takes,
    behind a takeover."""
    expiry_rank_ms: int = 100
    """Un-owned queues are swept by the first broker; each next one waits this much longer, in case it is gone."""
    expiry_held_ms: int = 1000
    """How long to wait before looking again at an expired message that a consumer has: it expires if it comes back."""
    expiry_slice_ms: int = 5
    """From one slice of expired messages to the next, while there are more than `Limits.expire_messages`."""

    # ---- capture

    facts_gather_ms: int = 20
    """How long facts gather at most before they leave for the tap."""
    tap_grace_ms: int = 2000
    """How long the tap waits in a stream for a source that has the next index, while all present ones lack it."""

    # ---- the end

    stop_ms: int = 30_000
    """A cluster with stores that was to be stopped goes on when it has not ended within this time: who stopped it is
    gone. A broker takes clients again, counted from when it was last told to give back what it holds; a process that
    has written all down already can only end, counted from when it has, or from an order that came behind that."""

    # ---- the supervisor

    supervisor_fresh_ms: int = 1000
    """A broker's confirmation of the supervisor counts for this time from when it was asked for."""
    supervisor_round_ms: int = 500
    """How often each broker is asked for confirmation, one after the other."""
    supervisor_heard_ms: int = 3000
    """A supervisor that has asked a broker for confirmation within this time is there: no other takes its place."""
    supervisor_silent_ms: int = 7000
    """A supervisor that has asked for nothing for this time is out of reach: brokers start another."""
    supervisor_rank_ms: int = 3000
    """The time by which each next broker waits longer before it looks for a silent supervisor."""
    supervisor_idle_ms: int = 4000
    """A supervisor that could not act for this time says so."""
    supervisor_ask_ms: int = 300
    """How often the supervisor asks the brokers while something waits for their answers."""
    confirmed_ms: int = 5000
    """A deed that needs the brokers' word waits at most this long for it, and is tried again later."""
    replace_again_ms: int = 1000
    """A process that could not be replaced is tried again after this time."""
    stand_ms: int = 1000
    """How often a candidate asks the brokers to take it for the supervisor."""
    candidate_ms: int = 20_000
    """A candidate that no majority takes for the supervisor within this time gives up."""
    elected_ms: int = 25_000
    """How long the one that started a candidate waits for it: one that no majority takes has ended itself by then."""
    evidence_ms: int = 2500
    """The leading sequencer's report of its links counts for this time."""
    still_ms: int = 4000
    """A process that answers the supervisor nothing for this time stands still, if the brokers have lost it too."""
    enrol_ms: int = 10_000
    """How long a broker that was started may take until the sequencer knows it."""
    end_told_ms: int = 2000
    """A process that is asked to end has this time for it, then it is killed."""
    end_patience_ms: int = 8000
    """A process that is to be ended and is not found gone within this time is left alone."""
    settled_ms: int = 8000
    """A cluster that has been whole, and unevenly spread, for this time is put right."""

    def __post_init__(self) -> None:
        broken = [rule.complaint(self) for rule in RULES if not rule.kept_by(self)]
        if broken:
            raise LocalError(f"a Timing needs {'; and '.join(broken)}")


class Rule(NamedTuple):
    """An inequality that every `Timing` keeps.

    Attributes:
        less: fields whose sum is less. more: the field that is more. equal: it may be as much. why: in words.
    """

    less: tuple[str, ...]
    more: str
    why: str
    equal: bool = False

    def text(self) -> str:
        return f"{' + '.join(self.less)} {'<=' if self.equal else '<'} {self.more}"

    def kept_by(self, timing: Timing) -> bool:
        less, more = sum(getattr(timing, name) for name in self.less), getattr(timing, self.more)
        return less < more or (self.equal and less == more)

    def complaint(self, timing: Timing) -> str:
        numbers = " + ".join(str(getattr(timing, name)) for name in self.less)
        return f"{self.text()}, and has {numbers} and {getattr(timing, self.more)}: {self.why}"


RULES = (
    Rule(
        ("lease_ms", "heartbeat_ms"),
        "evict_ms",
        "a broker that is cut off must have stopped to serve before it is evicted (B4)",
    ),
    Rule(("heartbeat_ms", "heartbeat_ms"), "suspect_ms", "one beat that is late is no reason for a takeover"),
    Rule(("broken_ms",), "suspect_ms", "a broken link is found sooner than silence"),
    Rule(("broken_ms",), "evict_ms", "a broken link is found sooner than silence"),
    Rule(("redial_ms",) * 3, "broken_ms", "a peer whose link breaks is dialled twice again before it is missed"),
    Rule(("redial_ms",), "redial_most_ms", "waits between two dials grow"),
    Rule(("backlog_patience_ms",), "letters_wait_ms", "who is behind is given up before dead letters go on"),
    Rule(("redial_most_ms",), "refusal_ms", "a peer that is refused dials again before its refusal is over"),
    Rule(("heartbeat_ms",), "suspicion_ms", "a suspicion counts until it is repeated, which is every beat"),
    Rule(
        ("evict_ms",),
        "keepalive_patience_ms",
        "a broker that merely stands still is found by the sequencer's heartbeats first",
    ),
    Rule(("keepalive_ms", "keepalive_ms"), "keepalive_patience_ms", "a link bears one sign of life that is late"),
    Rule(
        ("replica_keepalive_ms", "replica_keepalive_ms"),
        "replica_patience_ms",
        "a broker bears one sign of life of its replica that is late",
    ),
    Rule(
        ("replica_patience_ms",),
        "keepalive_patience_ms",
        "a broker misses its own replica, which may hold locks, before another member's link is missed",
    ),
    Rule(
        ("recovery_grace_ms",),
        "prepare_ms",
        "a sequencer that prepares looks once in a grace whether it must ask again",
        True,
    ),
    Rule(("backlog_look_ms",), "backlog_patience_ms", "a member's patience is measured by looks"),
    Rule(("majority_noted_ms",), "lost_ms", "a queue is not lost before the wait for its majority is told"),
    Rule(("majority_look_ms",), "waits_recent_ms", "a leader's word counts until it speaks again", True),
    Rule(("majority_look_ms",), "waits_kept_ms", "a broker keeps what it was told until it is told again"),
    Rule(("question_waits_ms",), "question_ms", "a queue known to have no majority is waited for less", True),
    Rule(("suspect_ms",), "first_duty_ms", "an Ownership that starts is waited for longer than one that was there"),
    Rule(
        ("suspect_ms", "heartbeat_ms"),
        "ownership_alone_ms",
        "one that is silent is replaced at the beat after it is suspected, if there is another",
    ),
    Rule(("evict_ms",), "resume_unseen_ms", "messages of an evicted broker come back with its eviction"),
    Rule(
        ("evict_ms", "suspect_ms"),
        "resume_held_ms",
        "messages of an evicted broker come back with its eviction, which may wait for a takeover",
    ),
    Rule(("facts_gather_ms",), "tap_grace_ms", "facts that a source still gathers are not missing"),
    Rule(("supervisor_ask_ms",), "supervisor_fresh_ms", "answers of several brokers must count at the same time"),
    Rule(
        ("supervisor_round_ms", "supervisor_round_ms"),
        "supervisor_fresh_ms",
        "a confirmation counts until the next one is there, also where a round takes twice its time",
        True,
    ),
    Rule(("supervisor_ask_ms",), "confirmed_ms", "who waits for the brokers' word asks more than once"),
    Rule(
        ("supervisor_fresh_ms",),
        "supervisor_heard_ms",
        "a supervisor that is cut off must have stopped to act before another takes its place",
    ),
    Rule(
        ("supervisor_heard_ms",),
        "supervisor_silent_ms",
        "brokers look for another supervisor only when they would take one",
    ),
    Rule(("supervisor_fresh_ms",), "supervisor_idle_ms", "a supervisor that is confirmed acts"),
    Rule(("stand_ms",), "candidate_ms", "a candidate asks more than once"),
    Rule(("candidate_ms",), "elected_ms", "a candidate has ended itself before it is waited for no longer"),
    Rule(
        ("supervisor_silent_ms", "supervisor_rank_ms"),
        "stop_ms",
        "a supervisor that ends in the middle of a stop has a successor, which says why nobody is let in",
    ),
    Rule(("end_told_ms",), "end_patience_ms", "a process is killed before it is left alone"),
)

DEFAULT_TIMING = Timing()
