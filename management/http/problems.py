"""What is answered when something is wrong: a status, and {"error": ..., "reason": ...}, as RabbitMQ has it."""

from __future__ import annotations

from collections.abc import Mapping

from ...client.errors import (
    Deleted,
    Exists,
    InUse,
    Invalid,
    MantaError,
    NoStore,
    NotAllowed,
    NotEmpty,
    NotFound,
    ResourceLimitExceeded,
    TooLarge,
)
from ...protocol.errors import LocalError, PeerError

WORDS = {
    400: "bad_request", 401: "not_authorised", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
    409: "conflict", 413: "payload_too_large", 429: "too_many_requests", 500: "internal_error",
    503: "service_unavailable",
}  # fmt: skip
"""Status -> what stands in "error"."""

STATUS: tuple[tuple[type[MantaError], int], ...] = (
    (NotFound, 404), (Deleted, 404), (Exists, 409), (InUse, 409), (NotEmpty, 409), (ResourceLimitExceeded, 409),
    (Invalid, 400), (NoStore, 400), (TooLarge, 413), (NotAllowed, 403),
)  # fmt: skip
"""Kind of error -> status; of any other kind, 503: the cluster cannot answer now."""
REASON_CHARS = 2000


class HttpProblem(Exception):
    """A request is refused.

    Args:
        status: of HTTP.
        reason: which rule was broken, and what to do.
        headers: of the answer.
        error: the kind of it, in a word; by the status, unless given.
    """

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None, error: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})
        self.error = error or WORDS[status]

    @property
    def told(self) -> dict[str, str]:
        """The body of the answer."""
        return {"error": self.error, "reason": self.reason[:REASON_CHARS]}


def problem_of(error: Exception) -> HttpProblem:
    """What an error of the client, or of what it was given, is in HTTP."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, MantaError):
        status = next((number for kind, number in STATUS if isinstance(error, kind)), 503)
        return HttpProblem(status, error.text or type(error).__name__)
    text = error.text if isinstance(error, PeerError) else str(error)
    return HttpProblem(400, text)


OURS = (HttpProblem, MantaError, LocalError, PeerError)
"""What `problem_of` takes."""
