"""What an actor reports of itself: where it is, its links, and its machine.

A member that does not answer, or is starting, has fewer fields: those are `UNSET`, which is false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from ..errors import LocalError
from .base import StatusStruct
from .machines import BrokerStatus, ManagementStatus, OwnershipStatus, QueueStatus, SequencerStatus, TapStatus
from .stores import StoreStatus

M = TypeVar("M")


class LinkStatus(StatusStruct, kw_only=True):
    """A link to another member.

    Attributes:
        version: of the protocol, as the other side speaks it.
        inc: the other side's incarnation.
    """

    version: str
    inc: int


class RefusedClientsStatus(StatusStruct, kw_only=True):
    """Clients that were refused before their connection was open.

    Attributes:
        count: number of them.
        last: address of the last one, and why.
    """

    count: int
    last: str


class ShellStatus(StatusStruct, kw_only=True):
    """The links of one actor.

    Attributes:
        peers: names of the members it has a link to.
        clients: number of its clients.
        version: of the protocol, as it speaks it.
        links: member it has a link to -> that link.
        client_versions: version of the protocol -> number of clients that speak it.
        refused: member whose link was refused a moment ago -> why.
        refused_clients: all clients that were refused.
    """

    peers: list[str]
    clients: int
    version: str
    links: dict[str, LinkStatus]
    client_versions: dict[str, int]
    refused: dict[str, str]
    refused_clients: RefusedClientsStatus


class MoveStatus(StatusStruct, kw_only=True):
    """A broker's clients connect elsewhere than before.

    Attributes:
        before, address: where clients connected, and where they connect now.
        at: when that was heard; Unix time in seconds.
    """

    before: str
    address: str
    at: float


class MemberStatus(StatusStruct, Generic[M], kw_only=True):
    """An actor of the cluster, by its line of the address book and by what it says of itself.

    Attributes:
        name: its peer name.
        role: its class.
        pid: its process, 0 while that is not known.
        node: id of the Ray node.
        host: address of that.
        loop: its event loop.
        address: where its clients connect, else where members do.
        alive: it answers.
        error: why it does not answer, or does not say how it is.
        machine: what its machine reports; `UNSET` while it is starting or does not answer.
        peers, clients, version, links, client_versions, refused, refused_clients: as in `ShellStatus`.
    """

    name: str
    role: str
    pid: int = 0
    node: str = ""
    host: str = ""
    loop: str = ""
    address: str = ""
    alive: bool = True
    error: str | UnsetType = UNSET
    peers: list[str] | UnsetType = UNSET
    clients: int | UnsetType = UNSET
    version: str | UnsetType = UNSET
    links: dict[str, LinkStatus] | UnsetType = UNSET
    client_versions: dict[str, int] | UnsetType = UNSET
    refused: dict[str, str] | UnsetType = UNSET
    refused_clients: RefusedClientsStatus | UnsetType = UNSET
    machine: M | UnsetType = UNSET

    def linked(self, shell: ShellStatus) -> Self:
        """The same, with the links of its shell."""
        return msgspec.structs.replace(self, **msgspec.structs.asdict(shell))


AnyMember = MemberStatus[Any]
"""Of any role."""


class SequencerMember(MemberStatus[SequencerStatus]):
    """A Sequencer."""


class OwnershipMember(MemberStatus[dict[str, OwnershipStatus]]):
    """An Ownership; `machine`: queue id -> its lock."""


class ReplicaMember(MemberStatus[dict[str, QueueStatus]]):
    """A QueueReplica; `machine`: queue id -> the queue."""


class TapMember(MemberStatus[TapStatus]):
    """An EventTap."""


class ManagementMember(MemberStatus[ManagementStatus]):
    """A ManagementNode."""


class StoreMember(MemberStatus[StoreStatus]):
    """A StoreNode."""


class BrokerMember(MemberStatus[BrokerStatus], kw_only=True):
    """A BrokerNode.

    Attributes:
        moves: broker -> its last move, of those that this broker has heard of.
    """

    moves: dict[str, MoveStatus] | UnsetType = UNSET


KIND_OF_ROLE: dict[str, type[AnyMember]] = {
    "Sequencer": SequencerMember,
    "Ownership": OwnershipMember,
    "QueueReplica": ReplicaMember,
    "EventTap": TapMember,
    "ManagementNode": ManagementMember,
    "StoreNode": StoreMember,
    "BrokerNode": BrokerMember,
}
"""An actor's class -> its status. An actor of a role that is not known here is a plain `MemberStatus`."""


_PLACE = ("name", "role", "pid", "node", "host", "loop", "address", "alive")


def read_member(plain: Mapping[str, Any]) -> AnyMember:
    """What an actor has said of itself; with an error in place of its machine's report when that cannot be read.

    Raises:
        LocalError: not even where it is can be read.
    """
    kind = KIND_OF_ROLE.get(plain.get("role", ""), MemberStatus)
    try:
        return kind.read(plain)
    except LocalError as error:
        place = {name: plain[name] for name in _PLACE if name in plain}
        return kind.read(place | {"error": str(error)})
