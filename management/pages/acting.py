"""The forms as routes: each POST does a deed, or asks whether one is sure, and says in words what it came to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...client.errors import MantaError
from ...protocol.errors import LocalError
from ..deeds import Asker, Deeds
from ..view import ManagementView
from .forms import FORMS, Form
from .given import Given
from .templating import is_refresh

Page = Callable[..., Response]
AskerOf = Callable[[Request], Asker]


def somebody(request: Request) -> Asker:
    """Who asks, where nobody needs to say."""
    return Asker("somebody", request.client.host if request.client is not None else "")


def form_routes(view: ManagementView, deeds: Deeds, asker: AskerOf, page: Page) -> list[Route]:
    """The routes of all forms.

    Args:
        view: by which one sees what would be lost.
        asker: who asks; it may raise what its app answers to those who may not.
        page: makes a page, as `Shows.page`.
    """

    def route(path: str, form: Form) -> Route:
        async def act(request: Request) -> Response:
            who = asker(request)
            said: dict[str, Any] = {"sure": False, "messages": None, "tone": "ok", "text": ""}
            code = 200
            try:
                given = await Given.read(request)
                if form.loses is not None and not given.flag("sure"):
                    said |= {"sure": True, "loses": form.loses(view, given), "fields": given.fields}
                else:
                    done = await form.do(deeds, who, given)
                    said |= {"text": done.text, "messages": done.messages}
            except (MantaError, LocalError, OSError) as error:
                code = 409
                said |= {"tone": "bad", "text": f"Not done: {error}"}
            root = request.scope.get("root_path", "")
            known = said | {"title": form.title, "here_form": f"{root}/do/{path}", "back": _back(request, root)}
            return page(request, "said.html" if is_refresh(request) else "answer.html", code, **known)

        return Route(f"/do/{path}", act, methods=["POST"])

    return [route(path, form) for path, form in FORMS.items()]


def _back(request: Request, root: str) -> str:
    """The page that the form was on, if it is one of ours."""
    found = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer", ""))
    ours = found.netloc == request.headers.get("host") and found.path.startswith(f"{root}/")
    if not ours or found.path.startswith((f"{root}/do/", "//")):
        return f"{root}/"
    return f"{found.path}?{found.query}" if found.query else found.path
