"""Kinds of exchanges and bindings as their users see them, through the client."""

from __future__ import annotations

import pytest
from mantamq.client import Invalid, Message, NotAllowed, NotFound, connect_async

pytestmark = pytest.mark.timeout(20)


def bodies(session, queue):
    return [message.body.decode() for message in session.browse(queue)]


def test_an_exchange_leads_to_another(connection):
    connection.declare_queue("late")
    connection.declare_exchange("delays", "fanout")
    connection.bind("delays", "late")
    assert connection.bind_exchange("amq.topic", "delays", key="#.late")
    assert not connection.bind_exchange("amq.topic", "delays", key="#.late")
    connection.bind_exchange("delays", "amq.topic")  # back again: it ends
    session = connection.session()
    sender = session.sender("amq.topic")
    for subject in ("JFK.late", "JFK.early"):
        sender.send(Message(subject, subject=subject))
    sender.sync(5)
    assert bodies(session, "late") == ["JFK.late"]
    connection.unbind_exchange("amq.topic", "delays", key="#.late")
    with pytest.raises(NotFound):
        connection.bind_exchange("amq.topic", "nowhere")
    with pytest.raises(NotFound):
        connection.unbind_exchange("amq.topic", "delays", key="#.late")
    sender.send(Message(b"-", subject="JFK.late"))
    sender.sync(5)
    assert bodies(session, "late") == ["JFK.late"]


def test_an_exchange_begins_to_look_at_headers_under_its_senders(connection):
    connection.declare_queue("q")
    connection.bind("amq.match", "q", arguments={"n": 1})
    session = connection.session()
    each, fixed = session.sender("amq.topic"), session.sender("amq.topic/a.b")
    each.send(Message(b"-", subject="a", properties={"n": 1}))
    each.sync(5)
    connection.bind_exchange("amq.topic", "amq.match", key="a.#")
    for sender in (each, fixed):
        for body, n in (("yes", 1), ("no", 2)):
            sender.send(Message(body, subject="a", properties={"n": n}))
        sender.sync(5)
    assert bodies(session, "q") == ["yes", "yes"]


async def test_the_other_twin_binds_exchanges_too(cluster):
    async with await connect_async(cluster.address) as connection:
        await connection.declare_exchange("a", "fanout")
        assert await connection.bind_exchange("a", "amq.match", arguments={"n": 1})
        (link,) = [row for row in await connection.bindings() if "to_exchange" in row]
        assert (link["exchange"], link["to_exchange"], link["arguments"]) == ("a", "amq.match", {"n": 1})
        await connection.unbind_exchange("a", "amq.match")
        assert await connection.bindings() == []


def test_headers_that_begin_with_x_are_looked_at_where_the_binding_says_so(connection):
    connection.declare_queue("q")
    connection.bind("amq.match", "q", arguments={"x-match": "all-with-x", "x-from": "a"})
    session = connection.session()
    sender = session.sender("amq.match")
    for body, headers in (("yes", {"x-from": "a"}), ("no", {"x-from": "b"}), ("none", {})):
        sender.send(Message(body, properties=headers))
    sender.sync(5)
    assert bodies(session, "q") == ["yes"]
    with pytest.raises(Invalid, match="did you mean 'any-with-x'"):
        connection.bind("amq.match", "q", arguments={"x-match": "any-with"})


def test_an_exchange_goes_with_the_last_of_its_bindings(connection):
    connection.declare_exchange("e", "fanout", auto_delete=True)
    assert not connection.declare_exchange("e", "fanout", auto_delete=True)
    connection.declare_queue("q")
    connection.bind("e", "q")
    sender = connection.session().sender("e")
    connection.delete_queue("q")
    assert "e" not in {one["name"] for one in connection.exchanges()}
    with pytest.raises(NotFound, match="nothing is bound to it any more"):
        sender.send(b"-")
        sender.sync(5)


def test_nobody_sends_to_an_internal_exchange(connection):
    connection.declare_exchange("inner", "fanout", internal=True)
    with pytest.raises(NotAllowed, match="send to an exchange that leads to it"):
        connection.session().sender("inner/k")
    with pytest.raises(Invalid, match="are the same: give one"):
        connection.declare_exchange("other", internal=True, arguments={"manta.internal": False})


async def test_the_other_twin_declares_them_too(cluster):
    async with await connect_async(cluster.address) as connection:
        await connection.declare_exchange("e", "fanout", internal=True, auto_delete=True)
        (mine,) = [one for one in await connection.exchanges() if one["name"] == "e"]
        assert mine["arguments"] == {"manta.internal": True, "manta.auto_delete": True}
