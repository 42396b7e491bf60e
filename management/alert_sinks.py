"""Where changes of alerts go: lines of a log, and an address that gets each as a JSON document. Nobody waits for it."""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterable
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from ..protocol.errors import LocalError
from ..protocol.status.alerts import INFO
from .alert_changes import ENDED, AlertChange

log = logging.getLogger(__name__)

MOST = 1000
"""Changes that wait to be told; then the oldest goes."""
TRIES = 8
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
"""Between the first try and the second; each wait is twice the one before, up to this."""
TIMEOUT_S = 5.0


class LogSink:
    """A line for each change: a warning when an alert begins, an information when it ends.

    Args:
        to: the log; by default this module's.
    """

    def __init__(self, to: logging.Logger = log) -> None:
        self._log = to

    def tell(self, changes: Iterable[AlertChange]) -> None:
        for change in changes:
            one = change.alert
            if change.kind == ENDED:
                self._log.info(
                    "alert %(alert)s of %(subject)s has ended after %(lasted_s).0f s: %(reason)s",
                    {"alert": one.name, "subject": one.subject, "lasted_s": change.lasted_s, "reason": change.reason},
                )
                continue
            if one.severity == INFO:
                self._log.info(
                    "alert %(alert)s (info) of %(subject)s: %(reason)s; to do: %(todo)s",
                    {"alert": one.name, "subject": one.subject, "reason": change.reason, "todo": one.todo},
                )
                continue
            self._log.warning(
                "alert %(alert)s (%(severity)s) of %(subject)s: %(reason)s; to do: %(todo)s",
                {
                    "alert": one.name, "severity": one.severity, "subject": one.subject, "reason": change.reason,
                    "todo": one.todo,
                },
            )  # fmt: skip


class WebhookSink:
    """Posts each change to an address, in their order, from a thread of its own.

    What fails is tried again, each time later; an answer that says that the request is wrong is final. While one waits
    so do those after it.

    Args:
        url: http:// or https://.
        cluster: its id, for those who hear of several.
        timeout_s: for one try; seconds.
        most: so many changes wait at most; then the oldest is dropped.
        first_wait_s: between the first two tries; seconds.

    Attributes:
        cluster: as above.
        told: number of changes that were taken there.
        dropped: number of those that never will be.

    Raises:
        LocalError: the address is no such.
    """

    def __init__(
        self, url: str, cluster: str = "", timeout_s: float = TIMEOUT_S, most: int = MOST,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:  # fmt: skip
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise LocalError(f"alerts are posted to an address http://... or https://..., not to {url!r}")
        self.told = 0
        self.dropped = 0
        self._url = url
        self.cluster = cluster
        self._timeout_s = timeout_s
        self._most = most
        self._first_wait_s = first_wait_s
        self._open = urllib.request.build_opener(_NoRedirects).open
        self._waiting: deque[AlertChange] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, changes: Iterable[AlertChange]) -> None:
        """Have these posted; returns at once."""
        with self._changed:
            if self._closed.is_set():
                return
            for change in changes:
                if len(self._waiting) >= self._most:
                    self._waiting.popleft()
                    self.dropped += 1
                self._waiting.append(change)
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="alerts-webhook", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Post nothing more. What waits is dropped; a try under way ends by itself."""
        with self._changed:
            self._closed.set()
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._changed.notify()

    def _run(self) -> None:
        while (change := self._next()) is not None:
            told = self._post(change)
            with self._changed:
                self.told += told
                self.dropped += not told

    def _next(self) -> AlertChange | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
            return self._waiting.popleft() if self._waiting else None

    def _post(self, change: AlertChange) -> bool:
        """Whether it was taken, after as many tries as it has."""
        body = json.dumps({"cluster": self.cluster, **change.plain()}).encode()
        for tried in range(1, TRIES + 1):
            again, why = self._tried(body)
            if not why:
                return True
            wait_s = next_wait_s(tried, self._first_wait_s) if again else None
            if wait_s is None:
                log.error(
                    "an alert could not be posted, and is dropped: %(reason)s (%(change)s)",
                    {"reason": why, "change": change.line(), "alert": change.alert.name},
                )
                return False
            if self._closed.wait(wait_s):
                return False
        return False

    def _tried(self, body: bytes) -> tuple[bool, str]:
        """Whether another try makes sense, and why this one failed, "" if it did not."""
        headers = {"Content-Type": "application/json", "User-Agent": "mantamq"}
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._open(request, timeout=self._timeout_s):
                return False, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code in (408, 429) or error.code >= 500, f"the answer is {error.code} {error.reason}"
        except (OSError, HTTPException, ValueError) as error:
            return not isinstance(error, ValueError), str(error) or type(error).__name__


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected post would become a request for a page, without the alert: it is a failure that says so."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def next_wait_s(tried: int, first_s: float = FIRST_WAIT_S) -> float | None:
    """Seconds until the next try; None when there is none.

    Args:
        tried: number of tries that have failed.
    """
    return None if tried >= TRIES else min(LONGEST_WAIT_S, first_s * 2 ** (tried - 1))
