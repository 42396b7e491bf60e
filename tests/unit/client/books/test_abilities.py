"""What a broker can be asked for, and which one may take a connection over."""

from __future__ import annotations

import pytest
from mantamq.client.books.abilities import EXCLUSIVE, MODIFY, SEVERAL_KEYS, Abilities, of_another_cluster, too_old
from mantamq.client.errors import Invalid, NotAllowed
from mantamq.protocol.wire.client_frames import AttachReceiver, AttachSender, Opened
from mantamq.protocol.wire.version import KNOWS_SEVERAL_KEYS, MINOR

CONSUMER, SENDER = AttachReceiver(1, "q"), AttachSender(2, "", "q")


def greeting(minor=MINOR, cluster="") -> Opened:
    return Opened("b1", {}, 100, 100, 100, minor=minor, cluster=cluster)


@pytest.mark.parametrize(("link", "minor", "lacking"), [
    (AttachSender(1, "", "q", mandatory=True), 1, "mandatory senders"),
    (AttachReceiver(1, "q", selector="n > 3"), 6, "no selectors"),
    (AttachReceiver(1, "q", exclusive=1), 7, "exclusive receivers"),
    (AttachReceiver(1, "q", priority=-1), 7, "priorities of receivers"),
    (AttachReceiver(1, "q", no_local=True), 8, "no_local receivers"),
])  # fmt: skip
def test_a_broker_that_is_too_old_for_a_link_may_not_take_it_over(link, minor, lacking):
    assert lacking in too_old(minor, [SENDER, CONSUMER, link], False)
    assert not too_old(minor + 1, [SENDER, CONSUMER, link], False)
    assert not too_old(minor, [SENDER, CONSUMER], False)


def test_nor_one_that_routes_by_one_key_where_several_are_used():
    assert "routes by one key" in too_old(KNOWS_SEVERAL_KEYS - 1, [SENDER], True)
    assert not too_old(KNOWS_SEVERAL_KEYS, [SENDER], True)


@pytest.mark.parametrize(("before", "found", "other"), [
    ("one", "one", False), ("one", "two", True), ("one", "", False), ("", "two", False), (None, "two", False),
])  # fmt: skip
def test_only_a_broker_of_the_same_cluster_goes_on_as_far_as_they_say_which(before, found, other):
    earlier = None if before is None else greeting(cluster=before)
    assert bool(of_another_cluster(earlier, greeting(cluster=found))) is other


def test_what_an_older_broker_does_not_know_it_is_not_asked_for():
    old, new = Abilities(greeting(1), "here:1"), Abilities(greeting(), "here:1")
    for ask in (
        lambda able: able.selector("n > 3"), lambda able: able.exclusive(True), lambda able: able.priority(1),
        lambda able: able.no_local(True), lambda able: able.require(MODIFY), lambda able: able.require(SEVERAL_KEYS),
    ):  # fmt: skip
        with pytest.raises(NotAllowed, match=r"here:1 speaks protocol 1\.1 and .*1\.\d"):
            ask(old)
        ask(new)
    assert (old.selector(None), old.exclusive(False), old.priority(0), old.no_local(False)) == ("", False, 0, False)


def test_while_no_broker_has_greeted_nothing_is_refused():
    Abilities(None, "here:1").require(EXCLUSIVE)


@pytest.mark.parametrize("ask", [
    lambda able: able.selector(3), lambda able: able.exclusive(True, "browse"), lambda able: able.priority(1, "browse"),
    lambda able: able.priority(True), lambda able: able.priority(1 << 31),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_any(ask):
    with pytest.raises(Invalid):
        ask(Abilities(greeting(), "here:1"))
