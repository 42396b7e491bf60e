"""Who may ask, and who may change something: decided here for whatever is served."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import math
import time
from collections.abc import Callable, Collection

from starlette.requests import HTTPConnection

from ...protocol.errors import LocalError
from ..deeds import Asker
from .problems import HttpProblem
from .sessions import Sessions
from .wrong_tokens import WrongTokens

COOKIE = "manta_session"
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
ANYBODY = "anybody"
HOLDER = "holder of the token"
NAME_CHARS = 100
ANY_HOST = ("0.0.0.0", "::")
REALM = 'realm="mantamq"'


class Access:
    """Decides by where it listens, by the cluster's token, and by where a request comes from.

    Without a token everybody on this machine may do everything. With one it is to be presented, also to read: as
    `Authorization: Bearer TOKEN`, as the password of Basic, whatever the user's name, or once, at a login, whose cookie
    is then as good. A page of another site can neither change anything nor, by another name for this address, read.

    Args:
        hosts: addresses it listens on, and names it may be called by; "0.0.0.0" or "::" for all addresses.
        token: the cluster's, "" for none.
        clock: never goes back; seconds.

    Raises:
        LocalError: it would listen beyond this machine, and there is no token.
    """

    def __init__(
        self, hosts: Collection[str] = ("127.0.0.1",), token: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        beyond = [host for host in hosts if not is_loopback(host)]
        if beyond and not token:
            raise LocalError(
                f"the management does not listen on {beyond[0]} without a token: everybody who reaches it could delete "
                "queues; start the cluster with a token, or have it listen on 127.0.0.1"
            )
        self._hosts = frozenset(host.casefold() for host in hosts)
        self._token = token.encode()
        self._wrong = WrongTokens(clock)
        self.sessions = Sessions(clock)

    @property
    def open(self) -> bool:
        """Whether nobody needs to log in."""
        return not self._token

    def asker(self, request: HTTPConnection, method: str) -> Asker:
        """Who asks.

        Raises:
            HttpProblem: 401, the token is missing or wrong; 403, it comes from another site; 429, from where it comes
                many a token has been guessed.
        """
        self.check_origin(request, method)
        address = _address(request)
        if self.open:
            return Asker(_claimed(request) or ANYBODY, address)
        name = self._presented(request)
        if name is None:
            text = "this needs the cluster's token: as Authorization: Bearer TOKEN, as the password of Basic, or log in"
            raise HttpProblem(401, text, {"www-authenticate": _challenge(request)})
        return Asker(name, address)

    def check_origin(self, request: HTTPConnection, method: str) -> None:
        """
        Raises:
            HttpProblem: 403, the request was made by a page of another site, or by a name that is not ours.
        """
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            text = f"it is not called {_host(host)!r:.100} here: ask by an address that it listens on, or by localhost"
            raise HttpProblem(403, text)
        if method in READING:
            return
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site not in (None, "same-origin", "none") or (origin is not None and not _same(origin, host)):
            raise HttpProblem(403, "a page of another site may change nothing here: do it in our own pages")

    def is_token(self, request: HTTPConnection, given: str | bytes) -> bool:
        """Whether it is the cluster's token; how long this takes tells nothing of it.

        Raises:
            HttpProblem: 429, many wrong ones have come from the same address: this one is not looked at.
        """
        address = _address(request)
        if wait_s := self._wrong.wait_s(address):
            left_s = math.ceil(wait_s)
            text = f"many wrong tokens have come from {address}: wait for {left_s} s, then present the right one"
            raise HttpProblem(429, text, {"retry-after": str(left_s)})
        plain = given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass")
        right = bool(self._token) and hmac.compare_digest(plain, self._token)
        if not right:
            self._wrong.note(address, plain)
        return right

    def _presented(self, request: HTTPConnection) -> str | None:
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        match scheme.casefold():
            case "bearer":
                return HOLDER if self.is_token(request, value.strip().encode("latin-1")) else None
            case "basic":
                user, password = _basic(value)
                return named(user) or HOLDER if self.is_token(request, password) else None
        return self.sessions.name(request.cookies.get(COOKIE, ""))

    def _is_ours(self, header: str) -> bool:
        host = _host(header)
        if is_loopback(host) or host in self._hosts:
            return True
        # A name of somebody else's may lead here; an address is what it says.
        return _is_address(host) and any(one in self._hosts for one in ANY_HOST)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its loopback address or its name."""
    if host.casefold().rstrip(".") == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def named(text: str) -> str:
    """A name that somebody gives, as it can be shown and kept."""
    return "".join(one for one in text if one.isprintable())[:NAME_CHARS]


def _address(request: HTTPConnection) -> str:
    """Where a request comes from."""
    return request.client.host if request.client is not None else ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host(header: str) -> str:
    """Of a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0].casefold()
    return header.rpartition(":")[0].casefold() if ":" in header else header.casefold()


def _same(origin: str, host: str) -> bool:
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.casefold() == host.casefold()


def _basic(value: str) -> tuple[str, bytes]:
    try:
        user, _, password = base64.b64decode(value.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return "", b""
    return user.decode("utf-8", "replace"), password


def _claimed(request: HTTPConnection) -> str:
    """The user that Basic names, where nobody asks for a password."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return named(_basic(value)[0]) if scheme.casefold() == "basic" else ""


def _challenge(request: HTTPConnection) -> str:
    """What a program that can do Basic may present; a script in a page gets no such question, by which its browser
    would open a window."""
    return f"Bearer {REALM}" if request.headers.get("sec-fetch-mode", "navigate") != "navigate" else f"Basic {REALM}"
