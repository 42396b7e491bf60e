"""Kinds of exchanges and bindings as their users see them, through the client."""

from __future__ import annotations

import pytest
from mantamq.client import Invalid, Message

pytestmark = pytest.mark.timeout(20)


def bodies(session, queue):
    return [message.body.decode() for message in session.browse(queue)]


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
