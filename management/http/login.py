"""Logging in by a form or a script, and out again: a cookie stands for the token afterwards."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from ...client.errors import Invalid
from .access import COOKIE, HOLDER, Access, named
from .bodies import read_body, read_object
from .problems import OURS, HttpProblem, problem_of
from .sessions import LASTS_S

BODY_BYTES = 16 << 10
FORM = "application/x-www-form-urlencoded"
HOME = "/"


class Login:
    """What is served at /login and /logout.

    /login takes POST with {"token": ..., "name": ...} as JSON, and answers 204; or the same as a form, and leads to /.
    The name is what accounts of deeds say. Where no token is needed it logs in whoever asks.
    """

    def __init__(self, access: Access) -> None:
        self._access = access

    async def log_in(self, request: Request) -> Response:
        """Begin a session, if the token is right."""
        try:
            self._access.check_origin(request, request.method)
            body = await read_body(request, BODY_BYTES)
            form = request.headers.get("content-type", "").partition(";")[0].strip() == FORM
            token, name = _form(body) if form else _json(body)
            if not self._access.open and not self._access.is_token(request, token):
                raise HttpProblem(401, "this is not the cluster's token", {"www-authenticate": "Bearer"})
        except OURS as error:
            return refusal(problem_of(error))
        session = self._access.sessions.begin(named(name) or HOLDER)
        answer: Response = RedirectResponse(HOME, 303) if form else Response(status_code=204)
        answer.set_cookie(
            COOKIE, session, max_age=int(LASTS_S), path="/", httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        answer.headers["cache-control"] = "no-store"
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        try:
            self._access.check_origin(request, request.method)
        except HttpProblem as problem:
            return refusal(problem)
        self._access.sessions.end(request.cookies.get(COOKIE, ""))
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer


def refusal(problem: HttpProblem) -> Response:
    """The answer to a request that is refused."""
    return JSONResponse(problem.told, problem.status, headers=problem.headers)


def _json(body: bytes) -> tuple[str, str]:
    fields = read_object(body)
    return fields.text("token", ""), fields.text("name", "")


def _form(body: bytes) -> tuple[str, str]:
    try:
        fields = parse_qs(body.decode(), strict_parsing=bool(body), max_num_fields=10, errors="strict")
    except ValueError:
        raise Invalid("the form cannot be read: send token=... and name=..., encoded as a form") from None
    return fields.get("token", [""])[0], fields.get("name", [""])[0]
