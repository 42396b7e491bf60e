"""The initial status exchange: by what all stores say of themselves, a cluster begins, goes on, waits, or is refused.

As in CLFS and Galera a member that comes back says what it has before anybody serves (`durable.md` 4). Unlike there,
nobody has to be the last who stopped: each log is that of an acceptor, so a majority that has kept its logs is enough,
and less than that is never guessed from. A pure function of what was said: the shell looks, waits and asks again.

    all empty                                        BeginCluster
    a majority here, and a recovery quorum with logs ResumeCluster: who is without a log comes in blank (K4)
    fewer here                                       AwaitStores, and who is missing
    all here, too few with logs                      RefuseStart
    a majority was made for it, and never wrote      RefuseStart: its first start came to nothing
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

import msgspec

from ..errors import NOT_OUR_STORE, STORE_FORMAT, STORE_LOCKED
from ..log.quorum import majority, recovery_quorum
from ..wire.version import MINOR, spoken
from .store_words import EMPTY, JOINING, LEFT, STORE_LAYOUT, RefusedStore, StartWish, StoreWord, VoterSet

# ---- what is to be done


class BeginCluster(msgspec.Struct, frozen=True):
    """A new cluster, under a new id, in these empty directories. `warning` is to be said loudly."""

    places: tuple[StoreWord, ...]
    warning: str


class ResumeCluster(msgspec.Struct, frozen=True):
    """Go on with what was there.

    Attributes:
        cluster: its id.
        stores: broker -> its store.
        blank: brokers that have lost their log: they come in blank (K4). Also in `stores`.
        missing: members that are not here; each enrols when it comes.
        supervisor: the highest number that any supervisor of it has had: of those whose number was committed, and
            maybe of others.
        sets: the members by the newest wiring, and by each change of them that may be committed.
    """

    cluster: str
    stores: dict[str, StoreWord]
    blank: tuple[str, ...]
    missing: tuple[str, ...]
    supervisor: int = 0
    sets: tuple[tuple[str, ...], ...] = ()

    def enough_without(self, gone: Collection[str]) -> bool:
        """Whether a majority is there, and a recovery quorum with logs, also without these brokers."""
        here = self.stores.keys() - set(gone)
        return _enough(here, here - set(self.blank), self.sets)

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(_in_order({*self.stores, *self.missing}))


class AwaitStores(msgspec.Struct, frozen=True):
    """Start nothing yet. `text` names who is missing, and where it was last; `enough`: the others could start."""

    missing: tuple[str, ...]
    text: str
    enough: bool = False


class RefuseStart(msgspec.Struct, frozen=True):
    """Start nothing: no waiting will help. `text` says what will."""

    text: str


StartDeed = BeginCluster | ResumeCluster | AwaitStores | RefuseStart


class StartVerdict(msgspec.Struct, frozen=True):
    """What is to be done, and the stores that have no part in it."""

    deed: StartDeed
    refused: tuple[RefusedStore, ...] = ()


# ---- the decision


def decide(words: Sequence[StoreWord], wish: StartWish) -> StartVerdict:
    """What to do by all that was said so far. The order of `words` does not matter.

    Args:
        words: one for each store, and one for each directory without any.
        wish: the operator's.
    """
    words = sorted(words, key=lambda word: (word.broker, word.node, word.directory))
    refused = [one for one in map(_unreadable, words) if one is not None]
    out = {id(one.word) for one in refused}
    empty = [word for word in words if word.status == EMPTY and id(word) not in out]
    stored = [word for word in words if word.status != EMPTY and id(word) not in out]
    if not stored:
        return StartVerdict(_nothing_stored(empty, refused, wish), tuple(refused))
    clusters = {word.cluster: None for word in stored}
    ours = wish.cluster or _cluster(stored, list(clusters))
    if not ours:
        return StartVerdict(RefuseStart(_several_clusters(stored)), tuple(refused))
    refused += (_strange(word, ours) for word in stored if word.cluster != ours)
    stored, doubles = _one_each([word for word in stored if word.cluster == ours])
    refused += doubles
    sets = _voter_sets(stored)
    if not sets:
        return StartVerdict(RefuseStart(_no_wiring(stored)), tuple(refused))
    members = _in_order({broker for one in sets for broker in one.brokers})
    refused += (_left(word, members) for word in stored if word.broker not in members)
    stored = [word for word in stored if word.broker in members]
    blameless = {word.broker for word in empty if word.founding == ours}  # have never voted in it
    if any(len(set(one.brokers) - blameless) < majority(one.brokers) for one in sets):
        return StartVerdict(RefuseStart(_came_to_nothing(stored)), tuple(refused))
    if wish.brokers and wish.brokers != len(sets[0].brokers):
        return StartVerdict(RefuseStart(_other_number(wish.brokers, sets[0].brokers)), tuple(refused))
    return StartVerdict(_resume(ours, sets, members, stored, empty, refused, wish), tuple(refused))


def _resume(
    cluster: str, sets: Sequence[VoterSet], members: Sequence[str], stored: Sequence[StoreWord],
    empty: Sequence[StoreWord], refused: Sequence[RefusedStore], wish: StartWish,
) -> StartDeed:  # fmt: skip
    """The rows for a cluster that was there before: go on, wait, or refuse."""
    stores = {word.broker: word for word in stored}
    with_log = {word.broker for word in stored if word.votes}
    stores = {**{word.broker: word for word in empty if word.broker in members}, **stores}
    anybodys = [word for word in empty if not word.broker]
    # An empty directory may be the one that a missing broker has lost, or a new node's while that one is on its way.
    if wish.waited or len(members) - len(stores) <= len(anybodys):
        stores.update(zip([broker for broker in members if broker not in stores], anybodys, strict=False))
    missing = tuple(broker for broker in members if broker not in stores)
    voters = tuple(one.brokers for one in sets)
    if not missing and not _enough(set(members), with_log, voters):
        return RefuseStart(_too_few_logs(members, with_log, stores))
    quorum = _enough(stores.keys(), with_log, voters)
    enough = quorum and len(stores) >= wish.wait_for
    if not enough or (missing and not wish.waited):
        return AwaitStores(missing, _waiting(members, missing, stored, refused, wish, quorum), enough)
    blank = tuple(broker for broker in members if broker in stores and broker not in with_log)
    return ResumeCluster(cluster, stores, blank, missing, max(word.supervisor for word in stored), voters)


def _enough(here: Set[str], with_log: Set[str], sets: Sequence[Sequence[str]]) -> bool:
    """Whether of each set a majority is here, and a recovery quorum with logs."""
    return all(
        len(here & set(one)) >= majority(one) and len(with_log & set(one)) >= recovery_quorum(one) for one in sets
    )


def _nothing_stored(empty: Sequence[StoreWord], refused: Sequence[RefusedStore], wish: StartWish) -> StartDeed:
    if refused:  # there is something, and it could be the cluster's
        text = "no store can be used: " + "; ".join(one.text for one in refused)
        passes = all(one.code == STORE_LOCKED for one in refused)  # as soon as a cluster that was killed is all gone
        return AwaitStores((), text) if passes and not wish.waited else RefuseStart(text)
    if not empty:
        return AwaitStores((), "no node has said yet what its directory holds")
    where = ", ".join(word.place for word in empty)
    if wish.restart or wish.cluster:
        return RefuseStart(
            f"there is no store in {where}, and a new cluster was not asked for: mount the disks, name the directory "
            "that the cluster was started with, or start without --restart to begin a new one"
        )
    text = f"new store in {where}: a disk that is not mounted looks like this; stop the cluster if there was one before"
    return BeginCluster(tuple(empty), text)


def _voter_sets(stored: Sequence[StoreWord]) -> list[VoterSet]:
    """The newest voters known committed, and every change that anybody's log has behind that: it may be committed."""
    committed = [word.voters[0] for word in stored if word.voters and not word.hurt and word.status != JOINING]
    if not committed:
        return []
    newest = max(committed, key=lambda one: one.index)
    behind = {one.brokers: one for word in stored for one in word.voters[1:] if one.index > newest.index}
    return [newest, *sorted(behind.values(), key=lambda one: one.index)]


def _cluster(stored: Sequence[StoreWord], clusters: Sequence[str]) -> str:
    """The one cluster of which so much is here that it could go on; "" for several, or none of several."""
    if len(clusters) == 1:
        return clusters[0]
    able: list[str] = []
    for cluster in clusters:
        mine = [word for word in stored if word.cluster == cluster]
        sets, here = _voter_sets(mine), {word.broker for word in mine if word.votes}
        if sets and all(len(here & set(one.brokers)) >= majority(one.brokers) for one in sets):
            able.append(cluster)
    return able[0] if len(able) == 1 else ""


def _one_each(stored: Sequence[StoreWord]) -> tuple[list[StoreWord], list[RefusedStore]]:
    """Of two stores of a broker the one counts that was used last. Where that cannot be told, neither does."""
    kept: list[StoreWord] = []
    refused: list[RefusedStore] = []
    for broker in _in_order({word.broker for word in stored}):
        mine = sorted((word for word in stored if word.broker == broker), key=lambda word: -word.life)
        last = mine[0]
        copies = [word for word in mine[1:] if word.life == last.life]
        for word in mine if copies else mine[1:]:
            other = mine[1] if word is last else last
            text = (
                f"{word.place} is a second store of {broker}, as is {other.place}, and it cannot be told which was "
                "used last: move away the one that is a copy"
                if copies
                else f"{word.place} is an old store of {broker}: {broker} lives in {other.place} now; empty this one"
            )
            refused.append(RefusedStore(word, NOT_OUR_STORE, text))
        kept += [] if copies else [last]
    return kept, refused


# ---- stores that are not used


def _unreadable(word: StoreWord) -> RefusedStore | None:
    if word.code:
        return RefusedStore(word, word.code, word.text)
    if word.format > STORE_LAYOUT or word.minor > MINOR:
        text = (
            f"the store in {word.place} was written by a newer mantamq (format {word.format}, protocol "
            f"{spoken(word.minor)}); this one knows format {STORE_LAYOUT} and {spoken()}: run that version, or a newer "
            "one"
        )
        return RefusedStore(word, STORE_FORMAT, text)
    if word.status == LEFT:
        text = (
            f"the store in {word.place} is that of {word.broker}, which has left the cluster {word.cluster}: empty the "
            "directory, nothing in it is needed"
        )
        return RefusedStore(word, NOT_OUR_STORE, text)
    return None


def _strange(word: StoreWord, ours: str) -> RefusedStore:
    text = (
        f"the store in {word.place} belongs to the cluster {word.cluster}, not to {ours}: name the directory of this "
        "cluster, or an empty one"
    )
    return RefusedStore(word, NOT_OUR_STORE, text)


def _left(word: StoreWord, members: Sequence[str]) -> RefusedStore:
    text = (
        f"the store in {word.place} is that of {word.broker}, which is no member (it has left, or never came in); "
        f"members are {', '.join(members)}: empty the directory, and `mantamq broker add` if it is to join"
    )
    return RefusedStore(word, NOT_OUR_STORE, text)


# ---- in words


def _several_clusters(stored: Sequence[StoreWord]) -> str:
    clusters: dict[str, list[str]] = {}
    for word in stored:
        clusters.setdefault(word.cluster, []).append(f"{word.broker} in {word.place}")
    listed = "; ".join(f"cluster {cluster}: {', '.join(places)}" for cluster, places in clusters.items())
    return f"these stores belong to different clusters ({listed}): name a directory that has one cluster's only"


def _no_wiring(stored: Sequence[StoreWord]) -> str:
    where = ", ".join(word.place for word in stored)
    return (
        f"no store says who the members are ({where}): the cluster's first start never came to its end, or no log is "
        "left; put the disks of the others back, or empty these directories and start anew"
    )


def _came_to_nothing(stored: Sequence[StoreWord]) -> str:
    where = ", ".join(word.place for word in stored)
    return (
        f"the first start of this cluster was interrupted before anything in it could be complete: empty {where} and "
        "start again; nothing is lost with that"
    )


def _other_number(asked: int, voters: Sequence[str]) -> str:
    return (
        f"the stored cluster has {len(voters)} brokers ({', '.join(voters)}), not {asked}: start without --brokers, "
        "then use `mantamq broker add` or `mantamq broker remove`; or name another directory for a new cluster"
    )


def _too_few_logs(members: Sequence[str], with_log: set[str], stores: Mapping[str, StoreWord]) -> str:
    lost = [broker for broker in members if broker not in with_log]
    hurt = [f"; the log of {broker} is damaged ({stores[broker].hurt})" for broker in lost if stores[broker].hurt]
    keeper = min(with_log, key=_number, default="")
    recover = f", or `mantamq store recover --from {keeper}`" if keeper else ""
    return (
        f"{len(lost)} of {len(members)} stores are empty or without a log that counts ({', '.join(lost)})"
        f"{''.join(hurt)}: put the disks back{recover}"
    )


def _waiting(
    members: Sequence[str], missing: Sequence[str], stored: Sequence[StoreWord],
    refused: Sequence[RefusedStore], wish: StartWish, quorum: bool,
) -> str:  # fmt: skip
    nodes: dict[str, str] = {}
    for word in sorted(stored, key=lambda word: word.voters[0].index if word.voters else -1):
        nodes |= word.last_nodes
    why = {one.word.broker: one.text for one in refused}
    named = [
        f"{broker} ({'refused: ' + why[broker] if broker in why else 'last on ' + nodes[broker]})"
        if broker in why or broker in nodes
        else broker
        for broker in missing
    ]
    if not quorum:
        need = f"a majority of {', '.join(members)} with their logs is needed"
    elif len(members) - len(missing) < wish.wait_for:
        need = f"{wish.wait_for} stores were asked for"
    else:
        need = "the others could start, and will when the wait is over"
    return f"stores are missing: {', '.join(named)}; {need}"


def _in_order(brokers: set[str]) -> list[str]:
    return sorted(brokers, key=_number)


def _number(broker: str) -> tuple[int, str]:
    return (int(broker[1:]) if broker[1:].isdecimal() else 0), broker
