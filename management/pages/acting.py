"""The forms as routes: each POST does a deed, or asks whether one is sure, and says in words what it came to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...client.errors import MantaError
from ...protocol.errors import LocalError
from ..deeds import Deeds
from ..view import ManagementView
from .forms import FORMS, Form
from .given import Given
from .templating import is_refresh

Page = Callable[..., Response]
Handler = Callable[[Request], Awaitable[Response]]


def form_handlers(view: ManagementView, deeds: Deeds, page: Page) -> dict[str, Handler]:
    """Path -> what answers there to a form. Who sends one is in `state.asker` of the request.

    Args:
        view: by which one sees what would be lost.
        page: makes a page, as `Shows.page`.
    """

    def handler(path: str, form: Form) -> Handler:
        async def act(request: Request) -> Response:
            said: dict[str, Any] = {"sure": False, "messages": None, "objects": None, "tone": "ok", "text": ""}
            code = 200
            try:
                given = await Given.read(request, form.has_file)
                loses = "" if form.loses is None or given.flag("sure") else form.loses(view, given)
                if loses:
                    said |= {"sure": True, "loses": loses, "fields": given.fields}
                else:
                    said |= (await form.do(deeds, request.state.asker, given))._asdict()
            except (MantaError, LocalError, OSError) as error:
                code = 409
                said |= {"tone": "bad", "text": f"Not done: {error}"}
            root = request.scope.get("root_path", "")
            known = said | {"title": form.title, "here_form": f"{root}{path}", "back": _back(request, root)}
            return page(request, "said.html" if is_refresh(request) else "answer.html", code, **known)

        return act

    return {f"/do/{name}": handler(f"/do/{name}", form) for name, form in FORMS.items()}


def _back(request: Request, root: str) -> str:
    """The page that the form was on, if it is one of ours."""
    found = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer", ""))
    ours = found.netloc == request.headers.get("host") and found.path.startswith(f"{root}/")
    if not ours or found.path.startswith((f"{root}/do/", "//")):
        return f"{root}/"
    return f"{found.path}?{found.query}" if found.query else found.path
