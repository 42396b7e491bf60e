"""Which versions of the protocol can talk to each other.

The major version is the first byte of every frame: another one is refused at once, by either side. The minor version
rises when kinds of frames or events, or fields at the end of one, are added: it is told when a link opens, and any two
minors of one major work together, since whatever is newer than a program is skipped by it, and what is older leaves
the defaults.
"""

from __future__ import annotations

from ..errors import WRONG_VERSION, PeerError

MAJOR = 1
MINOR = 2
"""1: `FlowControl`, and versions and incarnations told at the opening of peer links.
2: the decisions that are ordered since the first trial from outside, each named where it is:
`Waits`, `Fetch.most_bytes`, `Open.rescue`, `Lost` with `Reset`. `Supervise`, `Supervised`: who supervises the cluster,
by a number that rises. `Completed.unroutable`, `AttachSender.mandatory`. `Flow.sure`,
`AttachReceiver.before`. `InUse`, `Condemn`, `Lift`, `Recount`, with who asks in `DeleteQueue`: conditions of a
deletion. A member before 2 tells of no consumers and holds no completions, so as long as one is there
(`Heartbeat.older`) a deletion on a condition is refused; what a broker missed in a wiring told by one, `Recount` has
ordered again.
`Attached.queue`: which queue of a name it is.
`Heartbeat.duty`, `Heartbeat.turn`, `Contended.ballot`, `Contended.turn`: which Ownership is on duty."""


def spoken(minor: int = MINOR) -> str:
    """A version of this major, as people write it."""
    return f"{MAJOR}.{minor}"


def wrong_major(found: int) -> PeerError:
    """`wrong-version`: a frame began with another major version; or there was no frame at all."""
    return PeerError(
        WRONG_VERSION,
        f"protocol {MAJOR}.x is spoken here and every frame begins with the byte {MAJOR}, this one with {found}: run "
        "the same major version of mantamq at both ends, and check that the address is a Manta's",
    )
