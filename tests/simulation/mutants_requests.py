"""Bugs of requests and their replies, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.receiver import ReceiverCore
from mantamq.client.books.requests import OpenRequests, ReplyReceiver
from mantamq.protocol.wire.queue_frames import ACCEPT

from .planting import planted

Patch = pytest.MonkeyPatch


def who_has_asked_first_gets_the_reply(patch: Patch) -> None:
    def replied(self: Any, message: Any) -> None:
        waiting = [request for request in self._open.values() if request.reply is None]
        if waiting:
            waiting[0].reply = message

    patch.setattr(OpenRequests, "replied", replied)


def what_comes_too_late_gathers(patch: Patch) -> None:
    def delivered(self: Any, frame: Any) -> None:
        ReceiverCore.delivered(self, frame)
        while (message := self.fetch()) is not None:
            if message.correlation_id in self.requests._open:
                self.settle(ACCEPT, message)
                self.requests.replied(message)

    patch.setattr(ReplyReceiver, "delivered", delivered)


def a_reply_before_its_request_is_complete_is_dropped(patch: Patch) -> None:
    replied = OpenRequests.replied

    def once_complete(self: Any, message: Any) -> None:
        request = self._open.get(message.correlation_id or "")
        if request is not None and request.sender.complete(request.number):
            replied(self, message)

    patch.setattr(OpenRequests, "replied", once_complete)


ALL = planted(globals())
