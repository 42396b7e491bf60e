"""The names of all that can be wrong with a cluster: a closed set, each with how bad it is and what to do.

`docs/alerts.md` is the same as a table. A name once given is kept: scripts ask for it (`mantamq check alert NAME`).
"""

from __future__ import annotations

from typing import NamedTuple

from .base import StatusStruct

CRITICAL, WARNING, INFO = "critical", "warning", "info"
"""Something stands still, or may be lost; something is less safe than it should be; something is under way."""


class AlertStatus(StatusStruct, kw_only=True):
    """Something that is wrong now.

    Attributes:
        name: one of `KINDS`, or a name that a newer member knows.
        subject: what it is about: a broker, a queue, a member, a host; "cluster" for the whole.
        text: it in words, as in the lists `unhealthy` and `warnings` of the cluster.
        severity: "critical", "warning" or "info".
        todo: what to do, in a sentence.
        since: Unix time in seconds when the supervisor first saw it, 0 where nobody remembers. It sees what is there
            whenever it is asked how the cluster is. One that has taken over begins anew.
    """

    name: str
    subject: str
    text: str
    severity: str
    todo: str
    since: float = 0.0


class AlertKind(NamedTuple):
    """Attributes: severity; meaning, in a sentence; todo, what to do, in a sentence."""

    severity: str
    meaning: str
    todo: str


KINDS: dict[str, AlertKind] = {
    # ---- nothing completes
    "no-majority": AlertKind(
        CRITICAL,
        "Too few brokers are there for a queue, or for the whole cluster: nothing of it completes.",
        "Bring the brokers back that are named as away; what is complete waits on those that are there.",
    ),
    "majority-lost": AlertKind(
        CRITICAL,
        "Most brokers that had a queue, or the wiring, have lost it: waiting does not help.",
        "Rescue what is left with `mantamq receive QUEUE --browse --rescue`, then do what the text says.",
    ),
    "no-leader": AlertKind(
        CRITICAL,
        "No sequencer leads: nothing completes.",
        "Wait some seconds for one to take over; if none does, see which members do not answer, and on which hosts.",
    ),
    "log-recovering": AlertKind(
        CRITICAL,
        "A sequencer has taken over and has not read a stream's log from a majority yet: nothing of it completes.",
        "Wait some seconds; if it stays so, bring back the brokers that have the stream.",
    ),
    "flow-control": AlertKind(
        CRITICAL,
        "A member is too far behind, or has too little memory: no transfer completes until it has caught up.",
        "Let consumers make room, or see why that member is slow: its processor, its disk, its network.",
    ),
    "deletion-undecided": AlertKind(
        CRITICAL,
        "A queue is to be deleted under a condition on which not all brokers have answered: it takes nothing.",
        "Wait for the broker that does not answer, or decide at once with `mantamq queue delete QUEUE --force`.",
    ),
    # ---- brokers
    "broker-missing": AlertKind(
        WARNING,
        "A broker of the cluster is not there.",
        "Wait until it is replaced; if it is not, see whether the supervisor is there and a host has room for it.",
    ),
    "broker-joining": AlertKind(
        INFO,
        "A broker is new, or has come back, and does not know the wiring yet.",
        "Wait until it has joined.",
    ),
    "broker-barred": AlertKind(
        CRITICAL,
        "A broker cannot join: the majority that knew the wiring is lost.",
        "Do what the alert `majority-lost` says.",
    ),
    "broker-cut-off": AlertKind(
        CRITICAL,
        "A broker has no contact with a majority and serves nobody; its clients go to others.",
        "See to the network between its host and the others.",
    ),
    "broker-without-sequencer": AlertKind(
        CRITICAL,
        "A broker has no sequencer to ask: what its clients send does not complete.",
        "Wait some seconds; if it stays so, see to the network between its host and the sequencers'.",
    ),
    "broker-without-replicas": AlertKind(
        WARNING,
        "None of a broker's queue replicas is connected to it.",
        "Wait until they are replaced; if they are not, see whether its host has memory left.",
    ),
    "queues-without-replica": AlertKind(
        WARNING,
        "A broker has queues that none of its queue replicas keeps.",
        "Wait until a replica takes them; if none does, see whether its host has memory left.",
    ),
    "broker-evicted": AlertKind(
        WARNING,
        "A broker was silent for too long and is out until it comes back.",
        "Wait until it is replaced; if it is not, see to its host.",
    ),
    "broker-closed": AlertKind(
        INFO,
        "A broker has all that it needs, and clients are not told of it yet.",
        "Wait: they are told within some seconds.",
    ),
    "broker-left-down": AlertKind(
        CRITICAL,
        "A broker's store has failed again and again, so the broker is not started any more.",
        "See to its disk, then start the cluster again or replace the broker.",
    ),
    "broker-awaited": AlertKind(
        WARNING,
        "The host with a broker's store does not answer, so the broker is not started yet.",
        "Bring the host back within the time that is said; after it the broker begins elsewhere, without its disk.",
    ),
    "broker-unknown": AlertKind(
        WARNING,
        "Ray cannot be asked, and where a broker is was not written down here.",
        "Ask on the host on which `mantamq up` was run.",
    ),
    "members-changing": AlertKind(
        INFO,
        "A broker joins or leaves.",
        "Wait until it is done: `mantamq broker list` shows it.",
    ),
    "cluster-stopping": AlertKind(
        WARNING,
        "The cluster is being stopped: clients are not let in.",
        "Wait; if nobody meant to stop it, it goes on by itself after the time that is said.",
    ),
    # ---- members
    "member-silent": AlertKind(
        WARNING,
        "A member's processes do not answer.",
        "Wait until they are replaced; if they are not, see to their host.",
    ),
    "member-mute": AlertKind(
        WARNING,
        "A member answers and cannot say how it is.",
        "Read the reason in the text, and the log of its process.",
    ),
    "member-starting": AlertKind(
        INFO,
        "A member is starting.",
        "Wait until it has started.",
    ),
    "member-died": AlertKind(
        WARNING,
        "A member has died and is being replaced.",
        "Wait until another is there; why it died is in the log of its process.",
    ),
    "members-unlinked": AlertKind(
        WARNING,
        "Two members do not link, though both are there.",
        "Read the reason in the text: mostly a firewall, or a version of its own on one host.",
    ),
    "no-standby": AlertKind(
        WARNING,
        "No sequencer stands by: the death of the one that leads would take longer to heal.",
        "Wait until another is started.",
    ),
    "no-ownership": AlertKind(
        CRITICAL,
        "No Ownership is there: consume locks do not move, so brokers without them hand nothing out.",
        "Wait until another is started.",
    ),
    "ownership-silent": AlertKind(
        CRITICAL,
        "The Ownership on duty does not answer, and no other does: consume locks do not move.",
        "Wait until another is started; if none is, see to the network of its host.",
    ),
    "no-second-ownership": AlertKind(
        WARNING,
        "Only one Ownership is there: its end would hold consume locks up.",
        "Wait until another is started.",
    ),
    "no-supervisor": AlertKind(
        CRITICAL,
        "The supervisor does not answer: what dies is not replaced.",
        "Wait: brokers start another when a majority misses it too.",
    ),
    "supervisor-unconfirmed": AlertKind(
        CRITICAL,
        "No majority of the brokers confirms the supervisor: what dies is not replaced.",
        "Bring brokers back until there is a majority, or see to the network of the supervisor's host.",
    ),
    "ray-silent": AlertKind(
        CRITICAL,
        "Ray cannot be asked from here: what dies is not replaced.",
        "See to Ray's head node: `ray status` says whether it is there.",
    ),
    # ---- replicas
    "replica-behind": AlertKind(
        WARNING,
        "Replicas at a broker are being brought up to date: until then one failure less is survived.",
        "Wait, and stop no other broker meanwhile.",
    ),
    "replica-missing": AlertKind(
        WARNING,
        "Queues, or the wiring, have no replica at a broker that should have one.",
        "Wait until the broker is back or replaced, and stop no other meanwhile.",
    ),
    # ---- disks
    "store-full": AlertKind(
        CRITICAL,
        "A broker's disk has no room: transfers wait.",
        "Make room in the directory that is named, or let consumers take what is in durable queues.",
    ),
    "store-unreadable": AlertKind(
        WARNING,
        "A broker cannot read all that it had on its disk: others bring it up to date.",
        "Wait, stop no other broker meanwhile, and see to the disk.",
    ),
    "store-damaged": AlertKind(
        WARNING,
        "A log was damaged on a broker's disk; what was in it has been had from others.",
        "See to the disk, and replace the broker if it happens again.",
    ),
    "catalogue-unsaved": AlertKind(
        WARNING,
        "A store cannot save the wiring in its catalogue, so its transaction log grows.",
        "Read the reason in the text, and make sure that its directory can be written.",
    ),
    # ---- hosts
    "host-frail": AlertKind(
        WARNING,
        "One host carries so much that nothing would complete if it failed.",
        "Add a host to Ray, or let `mantamq rebalance` spread the brokers.",
    ),
    "brokers-spreading": AlertKind(
        INFO,
        "Brokers are being spread over the hosts.",
        "Wait until it is done: `mantamq broker list` shows it.",
    ),
    "ray-node-ended": AlertKind(
        WARNING,
        "Ray's node on a host has ended: nothing runs there.",
        "Start it again on that host: `ray start --address=HEAD:PORT`.",
    ),
    "stranger-refused": AlertKind(
        WARNING,
        "A process that is not of this cluster was turned away.",
        "End it if it is left of an earlier start; nothing here waits for it.",
    ),
    # ---- events
    "events-not-captured": AlertKind(
        WARNING,
        "The event tap does not answer: what happens now comes into the event table later, or not at all.",
        "Wait until it is replaced.",
    ),
    "events-unwritten": AlertKind(
        WARNING,
        "The event tap cannot write rows.",
        "Read the reason in the text, and make sure that its directory has room and can be written.",
    ),
    "events-dropped": AlertKind(
        WARNING,
        "Events are missing from the event table.",
        "Count on a gap there: rows of kind dropped say where; give the tap's host more processor if it grows.",
    ),
    "events-untold": AlertKind(
        WARNING,
        "Nobody has the beginning of some streams of events.",
        "Count on a gap in the event table; those who read it need not wait for more.",
    ),
    # ---- the page
    "page-away": AlertKind(
        WARNING,
        "The page's process does not answer: the cluster is not shown, and its API answers nobody.",
        "Wait until it is replaced; `mantamq status` shows what the page would.",
    ),
    "page-elsewhere": AlertKind(
        INFO,
        "The page is not at the port that it was to have, since another program has that.",
        "Read in the text where it is, or name another port with `mantamq up --management PORT`.",
    ),
    "page-blind": AlertKind(
        WARNING,
        "The page cannot ask for part of what it shows, so that is old.",
        "Read the reason in the text; the cluster itself may be fine.",
    ),
}  # fmt: skip
