"""Requests that wait for their replies, without I/O: once for both twins.

Replies come to one queue of the connection's own, by one receiver, and are told apart by their correlation ids. What
comes for a request that nobody waits for any more is accepted and dropped as it comes, so nothing gathers.
"""

from __future__ import annotations

import math
import uuid

from ...protocol.wire.client_frames import Completed, Delivery, Detached, Failed
from ...protocol.wire.queue_frames import ACCEPT
from ..errors import Invalid, LinkClosed, MantaError, NotFound, Timeout, again
from ..message import Message
from .receiver import ReceiverCore
from .sender import SenderCore

REPLIES = 1000
"""How many replies may be on their way."""
ADDRESSES = 1000
"""Of so many addresses it is kept whether they are queues or exchanges."""


class OpenRequest:
    """One request. Attributes: address, as it was asked for; correlation, its id; sender, number: what it was sent as;
    reply; failure, why there will be none."""

    __slots__ = ("address", "correlation", "failure", "number", "reply", "sender")

    def __init__(self, address: str, correlation: str, sender: RequestSender) -> None:
        self.address = address
        self.correlation = correlation
        self.sender = sender
        self.number = 0
        self.reply: Message | None = None
        self.failure: MantaError | None = None

    def over(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self.reply is not None or self.failure is not None

    def result(self, timeout_s: float | None) -> Message:
        """The reply, when it is over or `timeout_s` has passed.

        Raises:
            Timeout: it has passed. MantaError: there will be no reply, and why.
        """
        if self.reply is not None:
            return self.reply
        if self.failure is not None:
            raise again(self.failure)
        if not self.sender.complete(self.number):
            why = self.sender.blocked or "no majority has it yet"
            raise Timeout(f"the request to {self.address!r} is not complete within {timeout_s:g} s: {why}")
        raise Timeout(
            f"no reply from {self.address!r} within {timeout_s:g} s: nobody answers there, or not in time, and whether "
            "it was done is unknown. A reply that comes later is dropped"
        )


class RequestSender(SenderCore):
    """Sends requests, each by a key of its own, and tells each what becomes of it."""

    requests: OpenRequests

    def ask(self, request: OpenRequest, message: Message, key: str) -> None:
        """Send one. The caller has seen to capacity.

        Raises:
            TooLarge, Invalid: this message cannot be sent.
        """
        number = self.next_put
        self.put_to(message, (key,))
        request.number = number
        self.flush()

    def complete(self, number: int) -> bool:
        return self._done.covers(number, number)

    def completed(self, frame: Completed | Failed) -> None:
        super().completed(frame)
        for ranges, failure in self.failures:
            self.requests.refused(self, ranges, failure)
        self.failures.clear()

    def ended(self, failure: MantaError) -> None:
        super().ended(failure)
        self.requests.sender_ended(self)


class ReplySender(SenderCore):
    """Sends replies. One whose queue is gone, with who has asked, is nobody's concern."""

    def completed(self, frame: Completed | Failed) -> None:
        super().completed(frame)
        self.failures = [one for one in self.failures if not isinstance(one[1], NotFound)]


class ReplyReceiver(ReceiverCore):
    """Receives replies, and gives each to who waits for it."""

    requests: OpenRequests

    def delivered(self, frame: Delivery) -> None:
        super().delivered(frame)
        while (message := self.fetch()) is not None:
            self.settle(ACCEPT, message)
            self.requests.replied(message)

    def interrupted(self, broker: str = "") -> None:
        super().interrupted(broker)
        self.lost.clear()  # such a reply comes again, and is dropped

    def ended(self, failure: MantaError) -> None:
        super().ended(failure)
        self.requests.receiver_ended()

    def detached(self, frame: Detached) -> None:
        gone = LinkClosed(f"the queue {self.queue!r} for this connection's replies is gone ({frame.text}): ask again")
        self.ended(gone)


class OpenRequests:
    """All requests of a connection. Not thread-safe: its owner serialises calls.

    Attributes:
        opening: somebody sees to the queue, a sender or an address just now; others wait.
        fresh: what the name of the queue is made of.
    """

    def __init__(self) -> None:
        self.opening = False
        self.fresh = uuid.uuid4().hex
        self._receiver: ReplyReceiver | None = None
        self._senders: dict[str, RequestSender] = {}
        self._exchanges: dict[str, bool] = {}  # address without a key -> whether that is an exchange
        self._open: dict[str, OpenRequest] = {}
        self._count = 0

    # ---- what is there

    @property
    def receiver(self) -> ReplyReceiver | None:
        """The receiver of replies, while there is one."""
        found = self._receiver
        return found if found is not None and found.failure is None else None

    def receives(self, core: ReceiverCore) -> None:
        assert isinstance(core, ReplyReceiver)
        core.requests = self
        self._receiver = core
        self.fresh = uuid.uuid4().hex  # of the next one, should this one be gone

    def sender(self, exchange: str) -> RequestSender | None:
        """The sender to an exchange, while there is one."""
        found = self._senders.get(exchange)
        return found if found is not None and found.failure is None else None

    def sends(self, exchange: str, core: SenderCore) -> None:
        assert isinstance(core, RequestSender)
        core.requests = self
        self._senders[exchange] = core

    def is_exchange(self, address: str) -> bool | None:
        """Whether an address without a key is an exchange's name; None: not known."""
        return self._exchanges.get(address)

    def learned(self, address: str, exchange: bool) -> None:
        if len(self._exchanges) >= ADDRESSES:
            self._exchanges.clear()
        self._exchanges[address] = exchange

    # ---- requests

    def begin(self, address: str, sender: RequestSender) -> OpenRequest:
        self._count += 1
        request = self._open[str(self._count)] = OpenRequest(address, str(self._count), sender)
        return request

    def forget(self, request: OpenRequest) -> None:
        """Nobody waits for it any more."""
        self._open.pop(request.correlation, None)

    def replied(self, message: Message) -> None:
        request = self._open.get(message.correlation_id or "")
        if request is not None and request.reply is None:
            request.reply = message

    def refused(self, sender: RequestSender, ranges: list[int], failure: MantaError) -> None:
        """Messages of a sender were refused."""
        for request in self._open.values():
            if request.sender is sender and _within(request.number, ranges):
                request.failure = again(failure)
                if isinstance(failure, NotFound):  # what had that name is gone: another thing may have it
                    self._exchanges.pop(request.address, None)

    def sender_ended(self, sender: RequestSender) -> None:
        """What was complete by it may still be answered."""
        for request in self._open.values():
            if request.sender is sender and not (request.number and sender.complete(request.number)):
                request.failure = request.failure or sender.failure
        self._exchanges.clear()

    def receiver_ended(self) -> None:
        """There is no queue for replies any more."""
        if self._receiver is not None:
            for request in self._open.values():
                request.failure = request.failure or self._receiver.failure


def _within(number: int, ranges: list[int]) -> bool:
    return any(ranges[i] <= number <= ranges[i + 1] for i in range(0, len(ranges), 2))


def to_ask(body: Message | bytes | str, correlation: str, reply_to: str, timeout_s: float | None) -> Message:
    """A request as it is sent: it expires with its time-out, unless it has a `ttl` of its own.

    Raises:
        Invalid: it has a `correlation_id` or `reply_to` already.
    """
    if isinstance(body, Message) and (body.correlation_id is not None or body.reply_to is not None):
        raise Invalid("correlation_id and reply_to of a request are the connection's: leave them away")
    message = _like(body)
    message.correlation_id, message.reply_to = correlation, reply_to
    if message.ttl is None:
        message.ttl = timeout_s
    return message


def to_reply(asked: Message, body: Message | bytes | str) -> tuple[str, str, Message]:
    """Exchange, key, and message of a reply to a message.

    Raises:
        Invalid: it asks for no reply.
    """
    if not isinstance(asked, Message) or not asked.reply_to:
        raise Invalid("only a message with reply_to can be replied to: this one asks for no reply")
    message = _like(body)
    if message.correlation_id is None:
        message.correlation_id = asked.correlation_id if asked.correlation_id is not None else asked.message_id
    exchange, slash, key = asked.reply_to.partition("/")
    return (exchange, key, message) if slash else ("", asked.reply_to, message)


def _like(body: Message | bytes | str) -> Message:
    """A message like this one, which stays as it is."""
    if not isinstance(body, Message):
        return Message(body)
    like = Message(
        body.body, body.subject, body.properties, body.ttl, body.priority, body.correlation_id, body.reply_to,
        body.durable, body.content_type, body.message_id,
    )  # fmt: skip
    return like


def checked_timeout(timeout_s: float | None) -> None:
    """Check how long a reply is to be waited for: more than 0 seconds, or None for ever.

    Raises:
        Invalid: it is something else.
    """
    number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if timeout_s is not None and not (number and 0 < timeout_s < math.inf):
        raise Invalid(f"timeout_s of a request is more than 0 seconds, or None to wait for ever: not {timeout_s!r}")
