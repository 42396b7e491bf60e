"""The initial status exchange, row by row: what is found, what is done, and what an operator reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.log.quorum import majority, recovery_quorum
from mantamq.protocol.supervisor.store_words import STORE_LAYOUT, RefusedStore, StartWish, StoreWord, VoterSet
from mantamq.protocol.supervisor.stores import AwaitStores, BeginCluster, RefuseStart, ResumeCluster, decide
from mantamq.protocol.wire.version import MINOR
from mantamq.store.identity import FORMAT, StoreState
from msgspec.structs import replace

THREE = ("b1", "b2", "b3")
WAITED = StartWish(waited=True)


def word(broker: str, *sets: tuple[int, Sequence[str]], **more: object) -> StoreWord:
    voters = tuple(VoterSet(index, tuple(brokers)) for index, brokers in sets or ((7, THREE),))
    said = StoreWord(
        node=f"n{broker[1:]}", directory=f"/data/{broker}", broker=broker, store=f"store-{broker}", cluster="c",
        status="dirty", life=10, voters=voters, last_nodes={b: f"host-{b}" for b in THREE},
    )  # fmt: skip
    return replace(said, **more)


def empty(node: str, broker: str = "") -> StoreWord:
    return StoreWord(node=node, directory="/data", broker=broker)


def deed(*words: StoreWord, wish: StartWish = WAITED):
    return decide(words, wish).deed


def refusals(*words: StoreWord, wish: StartWish = WAITED) -> dict[str, str]:
    refused: Sequence[RefusedStore] = decide(words, wish).refused
    return {one.word.node: f"{one.code}: {one.text}" for one in refused}


def test_the_words_of_the_directory_and_of_the_exchange_are_the_same() -> None:
    assert STORE_LAYOUT == FORMAT
    unsaid = {"recovering", "founding"}  # `open_store` refuses the one, and says "empty" of the other
    assert {one.value for one in StoreState} - unsaid == {"empty", "joining", "dirty", "clean", "left"}


# ---- all empty


def test_empty_directories_become_a_new_cluster_and_it_is_said_loudly() -> None:
    found = deed(empty("n2"), empty("n1"))
    assert isinstance(found, BeginCluster)
    assert [one.node for one in found.places] == ["n1", "n2"]
    assert "not mounted looks like this" in found.warning and "/data on n1" in found.warning


def test_a_restart_begins_no_new_cluster() -> None:
    found = deed(empty("n1"), wish=StartWish(restart=True))
    assert isinstance(found, RefuseStart)
    assert "mount the disks" in found.text and "without --restart" in found.text
    assert isinstance(deed(empty("n1"), wish=StartWish(cluster="c")), RefuseStart), "one of that id was asked for"


def test_nobody_has_said_anything_yet() -> None:
    assert isinstance(deed(), AwaitStores)


def test_a_store_that_cannot_be_read_is_no_empty_one() -> None:
    locked = replace(empty("n1"), status="dirty", code="store-locked", text="/data/b1 is held by process 7: stop it")
    for status in ("dirty", "empty"):
        found = deed(replace(locked, status=status), empty("n2"))
        assert isinstance(found, RefuseStart) and "stop it" in found.text


def test_stores_that_are_all_locked_are_waited_for_a_while() -> None:
    """A cluster that was killed may have processes that end a moment later."""
    locked = replace(empty("n1"), status="dirty", code="store-locked", text="/data/b1 is held by process 7: stop it")
    found = deed(locked, wish=StartWish())
    assert isinstance(found, AwaitStores) and "held by process 7: stop it" in found.text
    assert isinstance(deed(locked), RefuseStart), "and then not any more"
    damaged = replace(empty("n2"), status="dirty", code="store-damaged", text="no store.json")
    assert isinstance(deed(locked, damaged, wish=StartWish()), RefuseStart), "that does not pass"


# ---- a first start that was interrupted


def test_one_between_two_first_records_says_that_nothing_is_lost() -> None:
    """Of three brokers one has written; the others say that they have not, and so no majority has."""
    one = word("b1")
    made = [StoreWord(node=f"n{n}", directory="/data", broker=f"b{n}", founding="c") for n in (2, 3)]
    for wish in (WAITED, StartWish(), StartWish(brokers=5, waited=True)):
        found = deed(one, *made, wish=wish)
        assert isinstance(found, RefuseStart) and "interrupted before anything" in found.text
        assert "empty /data/b1 on n1 and start again" in found.text
    found = deed(one, made[0], word("b3"))
    assert isinstance(found, ResumeCluster) and found.blank == ("b2",), "a majority has written"
    for other in (empty("n3", "b3"), StoreWord(node="n3", directory="/data", broker="b3", founding="another")):
        found = deed(one, made[0], other)
        assert isinstance(found, RefuseStart) and "put the disks back" in found.text, "b3 may have lost a log"


def test_one_before_any_record_leaves_empty_directories() -> None:
    made = [StoreWord(node=f"n{n}", directory="/data", broker=f"b{n}", founding="c") for n in (1, 2, 3)]
    assert isinstance(deed(*made), BeginCluster)


# ---- enough is here


@pytest.mark.parametrize("status", ["dirty", "clean"])
def test_all_are_here_and_nobody_waits(status: str) -> None:
    found = deed(*(word(b, status=status) for b in THREE), wish=StartWish())
    assert isinstance(found, ResumeCluster)
    assert (found.cluster, list(found.stores), found.blank, found.missing) == ("c", list(THREE), (), ())


def test_the_others_are_waited_for_then_a_majority_goes_on() -> None:
    first = deed(word("b1"), word("b3"), wish=StartWish())
    assert isinstance(first, AwaitStores) and first.missing == ("b2",) and first.enough
    assert "b2 (last on host-b2)" in first.text
    found = deed(word("b1"), word("b3"))
    assert isinstance(found, ResumeCluster)
    assert (list(found.stores), found.blank, found.missing) == (["b1", "b3"], (), ("b2",))


def test_an_empty_disk_comes_in_blank() -> None:
    found = deed(word("b1"), word("b2"), empty("n3", "b3"), wish=StartWish())
    assert isinstance(found, ResumeCluster) and found.blank == ("b3",) and found.stores["b3"].status == "empty"
    found = deed(word("b1"), word("b2"), empty("n3"), wish=StartWish())
    assert isinstance(found, ResumeCluster) and found.stores["b3"].node == "n3", "nobody else can be meant"


def test_a_new_nodes_directory_is_given_away_only_when_the_wait_is_over() -> None:
    five = ((7, ("b1", "b2", "b3", "b4", "b5")),)
    words = [*(word(b, *five) for b in THREE), empty("n9")]
    early = deed(*words, wish=StartWish())
    assert isinstance(early, AwaitStores) and early.missing == ("b4", "b5"), "both may have theirs"
    found = deed(*words)
    assert isinstance(found, ResumeCluster) and found.stores["b4"].node == "n9" and found.missing == ("b5",)


@pytest.mark.parametrize("how", [{"status": "joining"}, {"hurt": "damage at 4096 of tx"}])
def test_a_log_that_does_not_vote_is_blank(how: dict[str, str]) -> None:
    found = deed(word("b1"), word("b2"), word("b3", **how))
    assert isinstance(found, ResumeCluster) and found.blank == ("b3",)
    found = deed(word("b1"), word("b2", **how), word("b3", **how))
    assert isinstance(found, RefuseStart), "it is not counted for one that does"


def test_more_than_a_majority_is_waited_for_as_long_as_it_takes() -> None:
    found = deed(word("b1"), word("b2"), wish=StartWish(waited=True, wait_for=3))
    assert isinstance(found, AwaitStores) and "3 stores were asked for" in found.text and not found.enough


# ---- too few


def test_fewer_than_a_majority_wait_however_long() -> None:
    found = deed(word("b2"))
    assert isinstance(found, AwaitStores) and found.missing == ("b1", "b3") and not found.enough
    assert "b1 (last on host-b1), b3 (last on host-b3)" in found.text and "a majority of b1, b2, b3" in found.text


def test_all_here_and_too_few_with_a_log_is_refused() -> None:
    found = deed(word("b2"), empty("n1", "b1"), empty("n3", "b3"))
    assert isinstance(found, RefuseStart)
    assert found.text.startswith("2 of 3 stores are empty") and "put the disks back" in found.text
    assert "mantamq store recover --from b2" in found.text


def test_one_log_and_one_empty_disk_are_no_majority_with_logs() -> None:
    assert isinstance(deed(word("b1"), empty("n2", "b2")), AwaitStores), "b3 may have its log"


# ---- while members change


def test_the_newest_wiring_says_who_the_members_are() -> None:
    old, new = word("b1", (3, ("b1", "b2"))), word("b3", (9, ("b1", "b3", "b4", "b5")))
    found = deed(old, new)
    assert isinstance(found, AwaitStores) and found.missing == ("b4", "b5"), "b1 and b3 are two of four"
    assert isinstance(deed(old, new, word("b4", (3, ("b1",)))), ResumeCluster)


def test_a_change_under_way_asks_for_a_majority_of_both_sets() -> None:
    change = (7, ("b1", "b2", "b3")), (8, ("b1", "b2", "b3", "b4"))
    two = word("b1"), word("b2", *change)
    assert isinstance(deed(*two), AwaitStores), "two of three, but not three of four"
    assert isinstance(deed(*two, word("b4", *change, status="joining")), ResumeCluster)


def test_a_change_behind_an_older_commit_index_counts_as_well() -> None:
    shown = word("b1", (5, THREE), (8, (*THREE, "b4")))
    assert isinstance(deed(shown, word("b2")), AwaitStores), "what b1 has at 8 may be committed"
    over = word("b1", (5, THREE), (6, (*THREE, "b4")))
    assert isinstance(deed(over, word("b2")), ResumeCluster), "b2 knows better what was committed at 6"


# ---- stores that are not used


def test_another_clusters_store_is_refused() -> None:
    words = word("b1"), word("b2"), word("b3", cluster="d", node="stray")
    found = deed(*words)
    assert isinstance(found, ResumeCluster) and found.missing == ("b3",)
    assert "not-our-store" in refusals(*words)["stray"] and "cluster d, not to c" in refusals(*words)["stray"]


def test_two_clusters_that_could_both_go_on_are_not_chosen_between() -> None:
    words = [word("b1", (7, ("b1",))), word("b2", (7, ("b2",)), cluster="d")]
    found = deed(*words)
    assert isinstance(found, RefuseStart) and "cluster c: b1" in found.text and "cluster d: b2" in found.text
    assert isinstance(deed(*words, wish=StartWish(waited=True, cluster="d")), ResumeCluster)


def test_the_store_of_a_broker_that_has_left_is_refused_and_counts_for_nothing() -> None:
    left = word("b3", (9, ("b3",)), status="left", cluster="c", node="old")
    found = deed(word("b1", (7, ("b1", "b2"))), word("b2", (7, ("b1", "b2"))), left)
    assert isinstance(found, ResumeCluster) and found.members == ("b1", "b2")
    assert "has left the cluster c: empty the directory" in refusals(word("b1"), word("b2"), left)["old"]
    found = deed(left)
    assert isinstance(found, RefuseStart) and "has left" in found.text, "nothing begins over it"


def test_the_next_supervisors_number_is_above_all_that_stores_know_of() -> None:
    found = deed(word("b1", supervisor=3), word("b2", supervisor=7), word("b3"))
    assert isinstance(found, ResumeCluster) and found.supervisor == 7


def test_of_two_stores_of_one_broker_the_one_used_last_counts() -> None:
    words = word("b1"), word("b2"), word("b2", node="old", life=9), word("b3")
    found = deed(*words)
    assert isinstance(found, ResumeCluster) and found.stores["b2"].node == "n2"
    assert list(refusals(*words)) == ["old"] and "b2 lives in /data/b2 on n2 now" in refusals(*words)["old"]


def test_of_two_copies_neither_counts() -> None:
    words = word("b1"), word("b2"), word("b2", node="copy"), word("b3")
    found = deed(*words)
    assert isinstance(found, ResumeCluster) and found.missing == ("b2",)
    told = refusals(*words)
    assert told.keys() == {"n2", "copy"} and "on copy" in told["n2"] and "on n2" in told["copy"]
    found = deed(word("b1"), word("b1", node="copy"))
    assert isinstance(found, RefuseStart), "two stores of one broker are not two voters"


def test_a_broker_that_has_left_is_refused() -> None:
    words = *(word(b) for b in THREE), word("b4", (3, (*THREE, "b4")))
    found = deed(*words)
    assert isinstance(found, ResumeCluster) and list(found.stores) == list(THREE)
    assert "not-our-store" in refusals(*words)["n4"] and "is no member" in refusals(*words)["n4"]


@pytest.mark.parametrize("newer", [{"format": STORE_LAYOUT + 1}, {"minor": MINOR + 1}])
def test_a_newer_format_or_minor_is_refused(newer: dict[str, int]) -> None:
    words = word("b1"), word("b2"), word("b3", **newer)
    found = deed(*words, wish=StartWish())
    assert isinstance(found, AwaitStores) and "b3 (refused:" in found.text
    assert refusals(*words)["n3"].startswith("store-format: ") and "run that version" in refusals(*words)["n3"]


def test_a_locked_store_is_refused_and_named() -> None:
    locked = word("b3", code="store-locked", text="/data/b3 is held by b3.store, process 9: stop that one first")
    found = deed(word("b1"), locked)
    assert isinstance(found, AwaitStores) and "b3 (refused: /data/b3 is held by b3.store, process 9" in found.text
    assert refusals(word("b1"), locked)["n3"].startswith("store-locked: ")


def test_another_number_of_brokers_is_refused() -> None:
    found = deed(*(word(b) for b in THREE), wish=StartWish(brokers=5))
    assert isinstance(found, RefuseStart) and "3 brokers (b1, b2, b3), not 5" in found.text
    assert "mantamq broker add" in found.text
    assert isinstance(deed(*(word(b) for b in THREE), wish=StartWish(brokers=3)), ResumeCluster)


def test_stores_that_never_held_anything_name_nobody() -> None:
    found = deed(word("b1", voters=()), word("b2", voters=()))
    assert isinstance(found, RefuseStart) and "first start never came to its end" in found.text


# ---- whatever is found


KINDS = {
    "log": {},
    "joining": {"status": "joining"},
    "hurt": {"hurt": "damage"},
    "unread": {"code": "store-locked", "text": "locked"},
    "strange": {"cluster": "d", "voters": (VoterSet(7, ("b1", "b2", "b3", "b4", "b5")),)},
}


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(*[st.sampled_from([*KINDS, "empty", "anybodys", "away"])] * n)
    ),
    st.booleans(),
)  # fmt: skip
def test_what_goes_on_has_a_majority_and_the_logs_it_needs(kinds: tuple[str, ...], waited: bool) -> None:
    brokers = tuple(f"b{number}" for number in range(1, len(kinds) + 1))
    words = []
    for broker, kind in zip(brokers, kinds, strict=True):
        if kind in KINDS:
            words.append(replace(word(broker, (7, brokers)), **KINDS[kind]))
        elif kind != "away":
            words.append(empty(f"e{broker}", broker if kind == "empty" else ""))
    found = decide(words, StartWish(waited=waited)).deed
    for other in itertools.islice(itertools.permutations(words), 6):
        assert decide(other, StartWish(waited=waited)).deed == found, "the order does not matter"
    logs = {broker for broker, kind in zip(brokers, kinds, strict=True) if kind == "log"}
    if isinstance(found, ResumeCluster) and found.cluster == "c":
        assert len(logs) >= recovery_quorum(brokers) and len(found.stores) >= majority(brokers)
        assert (
            set(found.blank) == found.stores.keys() - logs and set(found.missing) == set(brokers) - found.stores.keys()
        )
    elif isinstance(found, BeginCluster):
        assert set(kinds) <= {"empty", "anybodys", "away"}
    elif logs == set(brokers):
        raise AssertionError("all are here with their logs")
