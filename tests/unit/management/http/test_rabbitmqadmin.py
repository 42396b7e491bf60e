"""What RabbitMQ's own rabbitmqadmin asks, with the bodies that it sends, is answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mantamq.management.http.access import Access

from .made_up_api import TOKEN, MadeUpApi

BASIC = ("guest", TOKEN)
"""It presents a user and a password, always."""
LISTS = (
    "/connections?columns=name,user,channels", "/channels?columns=name,user", "/consumers?columns=queue.name",
    "/consumers/%2F", "/exchanges?columns=name,type", "/exchanges/%2F", "/queues?columns=name,messages", "/queues/%2F",
    "/bindings?columns=source,destination,routing_key", "/bindings/%2F", "/vhosts?columns=name,messages",
    "/nodes?columns=name,type,mem_used", "/policies", "/operator-policies", "/overview", "/definitions",
)  # fmt: skip
IN_VHOST = {"vhost": "/"}
FLAGS = {"auto_delete": "false", "durable": "true"}
"""As texts."""
DEEDS: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "declare_exchange": ("PUT", "/exchanges/%2F/x",
                         {"name": "x", "type": "topic", "internal": "false", "arguments": {}, **FLAGS, **IN_VHOST}),
    "declare_queue": ("PUT", "/queues/%2F/q", {"name": "q", "arguments": {}, **FLAGS, **IN_VHOST}),
    "bind": ("POST", "/bindings/%2F/e/x/q/orders",
             {"source": "x", "destination": "orders", "destination_type": "queue", "routing_key": "", "arguments": {},
              **IN_VHOST}),
    "add_policy": ("PUT", "/policies/%2F/p",
                   {"name": "p", "pattern": "^a", "definition": {"max-length": 9}, "priority": 0, **IN_VHOST}),
    "delete_exchange": ("DELETE", "/exchanges/%2F/x", None),
    "delete_queue": ("DELETE", "/queues/%2F/orders", None),
    "unbind": ("DELETE", "/bindings/%2F/e/x/q/orders/k", None),
    "delete_policy": ("DELETE", "/policies/%2F/p", None),
    "purge": ("DELETE", "/queues/%2F/orders/contents", None),
    "publish": ("POST", "/exchanges/%2F/amq.default/publish",
                {"routing_key": "orders", "payload": "hi", "properties": {}, "exchange": "amq.default",
                 "payload_encoding": "string", **IN_VHOST}),
    "get": ("POST", "/queues/%2F/orders/get",
            {"queue": "orders", "count": "1", "ackmode": "ack_requeue_true", "encoding": "auto", **IN_VHOST}),
    "import_definitions": ("POST", "/definitions", {"queues": [], "exchanges": [], "bindings": []}),
}  # fmt: skip


@pytest.mark.parametrize("path", LISTS)
def test_what_it_lists_and_shows(path: str):
    answer = MadeUpApi(access=Access(token=TOKEN)).http.get(f"/api{path}", auth=BASIC)
    assert answer.status_code == 200 and isinstance(answer.json(), list | dict)


@pytest.mark.parametrize("deed", DEEDS)
def test_what_it_does(deed: str):
    method, path, body = DEEDS[deed]
    api = MadeUpApi(access=Access(token=TOKEN))
    content = None if body is None else json.dumps(body)
    answer = api.http.request(method, f"/api{path}", auth=BASIC, content=content)
    assert answer.status_code in (200, 201, 204), answer.text
    assert [name for name, *_ in api.deeds.done] == [deed]
