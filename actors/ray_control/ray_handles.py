"""The one class that touches Ray actor handles: calls with a time limit, kills. Control plane only."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future, wait
from typing import Any, Protocol

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayActorError, RayTaskError

from ...protocol.errors import LocalError

CALL_S = 30.0
END_S = 8.0
"""A process that ends itself has gone within this time, by its own alarm clock (`ending.py`): Ray has been seen to take
2 s for that where many end at once on a busy machine."""
LOOK_S = 0.1


class ActorGone(LocalError):
    """The actor cannot be reached now, or not any more: whether it lives is not known."""


class ActorDied(ActorGone):
    """The actor has died, says Ray: it takes one that is cut off for long for dead as well."""


class Handle:
    """A Ray actor by its peer name. Picklable. Without `actor` it is of one that is gone.

    Raises (from the calls):
        ActorGone: it did not answer within the time limit, or cannot be reached; whether the call ran is not known.
        ActorDied: Ray says that it is dead.
        LocalError: the actor raised one.
    """

    def __init__(self, name: str, actor: ActorHandle[Any] | None) -> None:
        self.name = name
        self._actor = actor

    def __repr__(self) -> str:
        return f"Handle({self.name})"

    @property
    def id(self) -> str:
        """Ray's id of the actor: names are used again. "" for one that is gone."""
        return self._actor._actor_id.hex() if self._actor is not None else ""  # pyright: ignore[reportPrivateUsage]

    async def call(self, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        """Call from an event loop."""
        reference = self.begin(method, *args)
        try:
            limit_s = None if timeout_s == float("inf") else timeout_s
            return await asyncio.wait_for(asyncio.wrap_future(reference.future()), limit_s)
        except Exception as error:
            raise self._translated(error, method, timeout_s) from error

    def call_now(self, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        """Call from ordinary code; blocks."""
        try:
            return ray.get(self.begin(method, *args), timeout=timeout_s)
        except Exception as error:
            raise self._translated(error, method, timeout_s) from error

    def begin(self, method: str, *args: Any) -> ray.ObjectRef[Any]:
        """Call, and get the answer later from `wait`."""
        if self._actor is None:
            raise ActorDied(f"{self.name} is gone")
        return getattr(self._actor, method).remote(*args)

    def wait(self, reference: ray.ObjectRef[Any], timeout_s: float = CALL_S) -> Any:
        """The answer to what `begin` began; blocks."""
        try:
            return ray.get(reference, timeout=timeout_s)
        except Exception as error:
            raise self._translated(error, "call", timeout_s) from error

    def tell(self, method: str, *args: Any) -> None:
        """Call and do not wait. The method itself must report what goes wrong."""
        self.begin(method, *args)

    def kill(self) -> None:
        """End the process, at once and for good."""
        if self._actor is None:
            return
        try:
            ray.kill(self._actor, no_restart=True)
        except (RayActorError, ValueError):
            pass  # gone already

    async def end(self, timeout_s: float = END_S) -> bool:
        """Let the process end itself, which Ray does not report as a death; whether it does.

        One that does not answer is killed.
        """
        until = time.monotonic() + timeout_s
        while True:
            answer = asyncio.wrap_future(self._quit())
            await asyncio.wait([answer], timeout=max(0.0, until - time.monotonic()))
            if not (_is_away(answer) and time.monotonic() < until):
                return self._ended(answer)
            await asyncio.sleep(LOOK_S)

    def end_now(self, timeout_s: float = END_S) -> bool:
        """`end`, from ordinary code; blocks."""
        until = time.monotonic() + timeout_s
        while True:
            answer = self._quit()
            wait([answer], timeout=max(0.0, until - time.monotonic()))
            if not (_is_away(answer) and time.monotonic() < until):
                return self._ended(answer)
            time.sleep(LOOK_S)

    def _quit(self) -> Future[Any]:
        if self._actor is None:
            gone: Future[Any] = Future()
            gone.set_exception(ActorDiedError())
            return gone
        return self.begin("quit").future()

    def _ended(self, answer: Future[Any] | asyncio.Future[Any]) -> bool:
        # `quit` does not return: that the actor has died is the answer.
        if answer.done() and isinstance(answer.exception(), ActorDiedError):
            return True
        self.kill()
        return False

    def _translated(self, error: Exception, method: str, timeout_s: float) -> Exception:
        if isinstance(error, (TimeoutError, GetTimeoutError)):
            return ActorGone(f"{self.name} did not answer {method} within {timeout_s:g} s")
        if isinstance(error, RayTaskError):
            cause = error.cause
            return cause if isinstance(cause, LocalError) else LocalError(f"{self.name}.{method} failed: {cause!r}")
        if isinstance(error, ActorDiedError):
            return ActorDied(f"{self.name} is dead: {error}")
        if isinstance(error, RayActorError):  # unavailable: Ray does not know, and neither do we
            return ActorGone(f"{self.name} cannot be reached: {error}")
        return error


def _is_away(answer: Future[Any] | asyncio.Future[Any]) -> bool:
    """Whether to ask again. Of a process that is ending by itself already Ray says for a while that it cannot be
    reached: one that is killed then, Ray reports to the user's terminal."""
    return answer.done() and isinstance(answer.exception(), ActorUnavailableError)


class Finder(Protocol):
    def supervisor(self) -> Handle | None: ...


class Teller:
    """A picklable callable: tells the supervisor that came last something, one argument."""

    def __init__(self, finder: Finder, method: str) -> None:
        self._finder = finder
        self._method = method

    def __call__(self, argument: Any) -> None:
        asyncio.get_running_loop().run_in_executor(None, self._tell, argument)

    def _tell(self, argument: Any) -> None:
        handle = self._finder.supervisor()
        if handle is not None:
            handle.tell(self._method, argument)
