"""What stores say of themselves before a cluster starts, and what its operator wishes: `stores.py` decides by it."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

import msgspec

from ..log.history import StreamHistory
from ..log.quorum import change
from ..wire.events import Member, decode_event
from ..wire.version import MINOR

STORE_LAYOUT = 1
"""The format of a store's directory that this program knows."""
EMPTY, JOINING, LEFT = "empty", "joining", "left"
"""Of the states in `store.json`, those without a log that votes."""


class VoterSet(msgspec.Struct, frozen=True, array_like=True):
    """The voters of the cluster stream from an index on."""

    index: int
    brokers: tuple[str, ...]


class StoreWord(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one store, by whoever has looked into it. It travels as a map: fields are added with defaults.

    Attributes:
        node: where it is: a host, and what tells its directories apart.
        directory: its path there.
        broker: whose it is; "" for an empty directory that could be anybody's.
        store, cluster: ids, "" for an empty one.
        status: as in `store.json`: empty, joining, dirty, clean, left; a founding one is empty.
        founding: id of the cluster that it was made for, and of which it has nothing: it has never voted there.
        shutdown: id of the stop that left it clean.
        format, minor: those it was written with.
        life: the last life that used it.
        voters: by its cluster stream: first the set as of the last index known committed, then one for each change
            behind that. None: its log has no record of it.
        supervisor: the highest number of a supervisor in its cluster stream.
        last_nodes: broker -> where it was last, as far as this one knows.
        hurt: damage in the cluster stream, in words; "" for none: such a log does not vote.
        free_bytes: on its disk.
        code, text: the `StoreError` for which it cannot be used; "" for none.
    """

    node: str = ""
    directory: str = ""
    broker: str = ""
    store: str = ""
    cluster: str = ""
    status: str = EMPTY
    founding: str = ""
    shutdown: str = ""
    format: int = STORE_LAYOUT
    minor: int = MINOR
    life: int = 0
    voters: tuple[VoterSet, ...] = ()
    supervisor: int = 0
    last_nodes: dict[str, str] = {}
    hurt: str = ""
    free_bytes: int = 0
    code: str = ""
    text: str = ""

    @property
    def votes(self) -> bool:
        """Whether it has a log that counts for a recovery quorum."""
        return self.status not in (EMPTY, JOINING, LEFT) and not self.hurt and bool(self.voters)

    @property
    def place(self) -> str:
        return f"{self.directory or 'a directory'} on {self.node or 'a node'}"


class StartWish(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator has asked for, and how long stores were waited for.

    Attributes:
        brokers: how many; 0: not said.
        restart: only a cluster that was there before: never begin one.
        wait_for: so many stores must be here, however long that takes; 0: a majority will do.
        waited: the time to wait for stores that are not needed is over.
        cluster: only this one, by its id; "": any.
    """

    brokers: int = 0
    restart: bool = False
    wait_for: int = 0
    waited: bool = False
    cluster: str = ""


def voter_sets(history: StreamHistory) -> tuple[VoterSet, ...]:
    """`StoreWord.voters`, by the records of the cluster stream; none where they do not say with whom it begins."""
    if not history.voters:
        return ()
    voters, sets = list(history.voters), list[VoterSet]()
    for index in range(history.base + 1, history.end + 1):
        if index == history.commit + 1:
            sets.append(VoterSet(history.commit, tuple(voters)))
        event = decode_event(history.entries[index].event)
        if isinstance(event, Member):
            change(voters, event)
            if index > history.commit:
                sets.append(VoterSet(index, tuple(voters)))
    return tuple(sets) if history.end > history.commit else (VoterSet(history.commit, tuple(voters)),)


class RefusedStore(msgspec.Struct, frozen=True):
    """A store that is not used, and why; it stays as it is."""

    word: StoreWord
    code: str
    text: str
