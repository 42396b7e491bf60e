"""The checkpoint of the cluster stream as rows, and back: facts that people can ask SQL for, and bytes beside them.

Rows are plain tuples of text, numbers and truth values, so two rows are equal exactly if they say the same. Arguments
are JSON, which tells 1, 1.0 and true from each other; bytes in them are ``{"$bytes": base64}``, infinity and NaN are
``{"$float": hexadecimal}``, and a name that begins with a dollar sign has one more. The rest is two values of msgpack
in `meta`: what the checkpoint has besides rows (the last request of each origin, for instance), and what the wiring has
(who uses a queue, flow control, the supervisor).
"""

from __future__ import annotations

import base64
import json
import math
import struct
from hashlib import blake2b
from typing import Any, NamedTuple

import google_crc32c
import msgspec

from ...protocol.errors import LocalError
from ...protocol.wire.records import CHECKPOINT, CheckpointRecord, decode_record, encode_record
from ...protocol.wiring.definitions import QueueDefinition, canonical
from ...protocol.wiring.snapshot import WiringSnapshot

Row = tuple[Any, ...]
Rows = dict[str, dict[str, Row]]
"""Table -> key -> row, its columns in the table's order, the key first."""

TABLES = ("exchanges", "queues", "bindings", "members")

_pack = msgspec.msgpack.encode

CLIENT = QueueDefinition.__struct_fields__.index("client")
UNCHANGED = msgspec.msgpack.decode(_pack(QueueDefinition("", "", {})), type=list[Any])[CLIENT + 1 :]
"""What a queue has behind that which policies have not changed."""
DISSOLVING = WiringSnapshot.__struct_fields__.index("dissolving") - 3


class TableContents(NamedTuple):
    """All that the catalogue's tables hold of a checkpoint.

    Attributes:
        wiring_index: the checkpoint's index.
        rows: of all tables but `meta`.
        stream: the `CheckpointRecord` without its members and its outline.
        rest: what the outline has besides rows, in msgpack; behind that the clients that have queues for themselves,
            queue id -> client id, the voters of queues that are deleted and not empty yet, and what policies have made
            of queues, queue id -> the fields of `QueueDefinition` behind `client`, as far as there are any.
    """

    wiring_index: int
    rows: Rows
    stream: bytes
    rest: bytes

    @property
    def digest(self) -> int:
        """CRC32C of everything: SQL databases have no checksum of what their rows say."""
        ordered = [sorted(self.rows[table].values()) for table in TABLES]
        return google_crc32c.value(_pack((self.wiring_index, ordered, self.stream, self.rest)))


def to_tables(checkpoint: CheckpointRecord) -> TableContents:
    """Take a checkpoint apart. Its outline is a `ClusterOutline`.

    Raises:
        LocalError: it has what no column is there for.
    """
    try:
        wiring, queue_voters, *later = msgspec.msgpack.decode(checkpoint.outline, type=list)
        queues, exchanges, bindings, *rest = wiring
        rows: Rows = {
            "exchanges": {one[0]: _exchange(*one) for one in exchanges},
            "queues": {id: _queue(queue_voters.get(id), id, *one) for id, *one in queues},
            "bindings": {row[0]: row for one in bindings for row in [_binding(*one)]},
            "members": _members(checkpoint),
        }
    except (TypeError, ValueError) as error:
        raise LocalError(f"a wiring has what the catalogue's tables have no column for: {error}") from None
    deleted = {one[0]: queue_voters[one[0]] for one in _dissolving(rest) if one[0] in queue_voters}
    if unknown := queue_voters.keys() - rows["queues"].keys() - deleted.keys():
        raise LocalError(f"voters of queues that the wiring does not have: {sorted(unknown)}")
    bare = msgspec.structs.replace(checkpoint, outline=b"", voters=[], incs={}, lives={})
    clients = {one[0]: one[CLIENT] for one in queues if one[CLIENT]}
    followed = {one[0]: one[CLIENT + 1 :] for one in queues if one[CLIENT + 1 :] != UNCHANGED}
    more = [clients, deleted, followed]
    while more and not more[-1]:
        more.pop()
    return TableContents(checkpoint.index, rows, encode_record(bare), _pack((rest, later, *more)))


def from_tables(kept: TableContents) -> CheckpointRecord:
    """Undo `to_tables`; lists are in the order of `Wiring.snapshot`.

    Raises:
        ValueError, PeerError: this is not what `to_tables` makes.
    """
    rows = kept.rows
    queues = sorted(rows["queues"].values(), key=lambda row: row[1])
    exchanges = sorted(rows["exchanges"].values())
    bindings = [[row[1], row[2], unescaped(row[3]), from_json(row[4])] for row in rows["bindings"].values()]
    bindings.sort(key=lambda one: (one[0], one[1], one[2], canonical(one[3])))
    rest, later, *more = msgspec.msgpack.decode(kept.rest, type=list[Any])
    clients, deleted, followed = more + [{}] * (3 - len(more))
    wiring = [
        [_definition(row, clients.get(row[0], ""), followed.get(row[0], UNCHANGED)) for row in queues],
        [[row[0], row[1], from_json(row[2]), row[3], row[4] or ""] for row in exchanges],
        bindings,
        *rest,
    ]
    queue_voters = {row[0]: json.loads(row[5]) for row in queues if row[5] is not None}
    queue_voters |= deleted
    members = rows["members"].values()
    bare = decode_record(CHECKPOINT, kept.stream)
    assert type(bare) is CheckpointRecord
    return msgspec.structs.replace(
        bare,
        outline=_pack((wiring, queue_voters, *later)),
        voters=[name for _, name in sorted((row[1], row[0]) for row in members if row[1] is not None)],
        incs={row[0]: row[2] for row in members if row[2] is not None},
        lives={row[0]: row[3] for row in members if row[3] is not None},
    )


def _dissolving(rest: list[Any]) -> list[list[Any]]:
    """The queues that are deleted and not empty yet, of what the wiring has besides rows."""
    return rest[DISSOLVING] if len(rest) > DISSOLVING else []


def _queue(
    voters: list[str] | None,
    id: str,
    name: str,
    arguments: dict[str, Any],
    durable: bool,
    alternate: str,
    client: str,
    *followed: Any,
) -> Row:
    if len(followed) != len(UNCHANGED):
        raise ValueError(f"{len(followed)} fields behind the client of queue {name!r}, not {len(UNCHANGED)}")
    return id, name, to_json(arguments), durable, alternate or None, None if voters is None else json.dumps(voters)


def _definition(row: Row, client: str, followed: list[Any]) -> list[Any]:
    """A `QueueDefinition` of its row and of what is kept beside the rows."""
    id, name, arguments, durable, alternate, _ = row
    return [id, name, from_json(arguments), durable, alternate or "", client, *followed]


def _exchange(name: str, type: str, arguments: dict[str, Any], durable: bool, alternate: str) -> Row:
    return name, type, to_json(arguments), durable, alternate or None


def _binding(exchange: str, queue: str, key: str, arguments: dict[str, Any]) -> Row:
    """Its key is a digest: exchange, queue, key and arguments together may be longer than an index of SQL takes."""
    place = blake2b(canonical((exchange, queue, key, arguments)), digest_size=16).hexdigest()
    return place, exchange, queue, escaped(key), to_json(arguments)


def _members(checkpoint: CheckpointRecord) -> dict[str, Row]:
    places = {name: place for place, name in enumerate(checkpoint.voters)}
    incs, lives = checkpoint.incs, checkpoint.lives
    return {name: (name, places.get(name), incs.get(name), lives.get(name)) for name in {*places, *incs, *lives}}


def escaped(key: str) -> str:
    r"""A binding's key may have NUL in it, which PostgreSQL's texts may not: ``\0``, and a backslash is two."""
    return key.replace("\\", "\\\\").replace("\0", "\\0")


def unescaped(text: str) -> str:
    """Undo `escaped`."""
    return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))


def to_json(arguments: dict[str, Any]) -> str:
    """Arguments as text."""
    if not arguments:
        return "{}"
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):  # bytes, or a number that is none
        return json.dumps(_marked(arguments), ensure_ascii=False)
    return json.dumps(_marked(arguments), ensure_ascii=False) if '"$' in text else text


def from_json(text: str) -> dict[str, Any]:
    """Undo `to_json`."""
    return json.loads(text, object_hook=_unmarked) if '"$' in text else json.loads(text)


def _marked(value: Any) -> Any:
    match value:
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case float() if not math.isfinite(value):
            return {"$float": struct.pack(">d", value).hex()}  # of NaN there are many, which are told apart
        case dict():
            return {f"${name}" if name.startswith("$") else name: _marked(inner) for name, inner in value.items()}
        case list():
            return [_marked(inner) for inner in value]
        case _:
            return value


def _unmarked(value: dict[str, Any]) -> Any:
    if value.keys() == {"$bytes"}:
        return base64.b64decode(value["$bytes"], validate=True)
    if value.keys() == {"$float"}:
        return struct.unpack(">d", bytes.fromhex(value["$float"]))[0]
    return {name[1:] if name.startswith("$") else name: inner for name, inner in value.items()}
