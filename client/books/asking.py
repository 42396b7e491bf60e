"""What a request does from its beginning to its reply, without I/O: each step says what is to be waited for.

The twins run the steps: they wait until what a step has yielded holds, or the request's time is over, and send that in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ...protocol.wire.client_frames import AttachReceiver, AttachSender
from ..errors import Timeout
from ..management import _Ask, _declare_queue, _resolve, parse_address
from ..message import Message
from .abilities import MANDATORY, SEVERAL_KEYS
from .conversation import Conversation
from .requests import REPLIES, ReplyReceiver, RequestSender, checked_timeout, to_ask

Steps = Generator[Callable[[], bool], bool, Any]
"""Yields what is to be waited for, and gets whether it holds: if not, the time is over."""


def asking(
    conversation: Conversation, pressed: Callable[[], bool], address: str, body: Message | bytes | str,
    timeout_s: float | None,
) -> Steps:  # fmt: skip
    """Send a request and wait for its reply, which is returned. Closing it gives the request up.

    Args:
        pressed: whether senders must wait, since the connection takes no more now.

    Raises:
        Invalid, TooLarge: it cannot be sent. Timeout, NotFound, Unroutable, LinkClosed, ConnectionLost: as
        `Connection.request`.
    """
    checked_timeout(timeout_s)
    to_ask(body, "", "", timeout_s)  # what is wrong with it is said at once
    requests = conversation.requests
    conversation.check()
    while True:
        exchange, key = yield from _in_turn(conversation, address, body, timeout_s)
        sender, receiver = requests.sender(exchange), requests.receiver
        if sender is None or receiver is None:
            continue  # it has ended while we were behind somebody
        if not sender.full() and not pressed():
            break
        sender.flush()
        if not (yield _room(sender, pressed)):
            raise Timeout(f"the request to {address!r} was not sent within {timeout_s:g} s: {sender.why_full()}")
        conversation.check()
    request = requests.begin(address, sender)
    try:
        sender.ask(request, to_ask(body, request.correlation, receiver.queue, timeout_s), key)
        yield request.over
        return request.result(timeout_s)
    finally:
        requests.forget(request)


def _in_turn(
    conversation: Conversation, address: str, body: Message | bytes | str, timeout_s: float | None
) -> Generator[Callable[[], bool], bool, tuple[str, str]]:
    """See that all is there that a request to an address needs, one caller at a time. Exchange and key."""
    requests = conversation.requests
    while True:
        conversation.check()
        exchange, key = parse_address(address)
        known = True if "/" in address else requests.is_exchange(address)
        if known and "/" not in address:
            exchange, key = address, (body.subject if isinstance(body, Message) else None) or ""
        if known is not None and requests.sender(exchange) is not None and requests.receiver is not None:
            return exchange, key
        if requests.opening:
            if not (yield lambda: not requests.opening or conversation.failure is not None):
                raise _late(address, timeout_s)
            continue
        requests.opening = True
        try:
            if known is None:
                kind = yield from _ordered(conversation, _resolve(address), address, timeout_s)
                requests.learned(address, kind == "exchange")
            elif requests.receiver is None:
                yield from _open_receiver(conversation, address, timeout_s)
            else:
                yield from _open_sender(conversation, exchange, address, timeout_s)
        finally:
            requests.opening = False


def _open_receiver(conversation: Conversation, address: str, timeout_s: float | None) -> Steps:
    requests = conversation.requests
    declared = _declare_queue("", False, "", None, False, requests.fresh, exclusive=True)
    queue = yield from _ordered(conversation, declared, address, timeout_s)
    handle = conversation.attach(lambda h: AttachReceiver(h, queue, "consume", True, []))
    yield from _attached(conversation, handle, address, timeout_s)
    requests.receives(conversation.receiver(handle, queue, REPLIES, True, kind=ReplyReceiver))


def _open_sender(conversation: Conversation, exchange: str, address: str, timeout_s: float | None) -> Steps:
    conversation.abilities.require(MANDATORY)
    conversation.abilities.require(SEVERAL_KEYS)
    handle = conversation.attach(lambda h: AttachSender(h, exchange, None, 0, True))
    yield from _attached(conversation, handle, address, timeout_s)
    conversation.requests.sends(exchange, conversation.sender(handle, exchange, True, REPLIES, kind=RequestSender))


def _ordered(conversation: Conversation, ask: _Ask[Any], address: str, timeout_s: float | None) -> Steps:
    """A command and its answer."""
    if ask.needs is not None:
        conversation.abilities.require(ask.needs)
    number = conversation.command(ask.name, ask.arguments)
    try:
        if not (yield lambda: conversation.replied(number)):
            raise _late(address, timeout_s)
        return ask.pick(conversation.result(number))
    finally:
        conversation.forget(number)


def _attached(conversation: Conversation, handle: int, address: str, timeout_s: float | None) -> Steps:
    try:
        if not (yield lambda: conversation.attached(handle)):
            raise _late(address, timeout_s)
    except BaseException:
        conversation.abandon(handle)
        raise


def _room(sender: RequestSender, pressed: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: sender.failure is not None or not (sender.full() or pressed())


def _late(address: str, timeout_s: float | None) -> Timeout:
    return Timeout(f"the request to {address!r} was not sent within {timeout_s:g} s: no broker has answered in time")
