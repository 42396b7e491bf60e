"""A queue's settings as a client declares them: each argument by itself, and all of them together, for some contradict
each other.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ..errors import INVALID, PeerError
from ..wire.settings import parse
from .settings import (
    ALERT_GAP_S,
    DEAD_LETTER,
    DEFAULT,
    IF_EMPTY,
    IF_UNUSED,
    LEVELS,
    MANUAL,
    ON_CLOSE,
    REJECT,
    RING,
    RING_STRICT,
    SELF_DESTRUCT,
    QueueSettings,
)


def declared(arguments: dict[str, Any]) -> QueueSettings:
    """The settings that a client declares a queue with: each argument by itself, and all of them together.

    Raises:
        PeerError: `invalid`, an argument has a value that it does not take; or two contradict each other.
    """
    settings = _with_lifetime(parse(QueueSettings, "queue", arguments))
    if settings.priorities and settings.max_priority:
        raise PeerError(INVALID, "priorities and x-max-priority are two ways to have levels: give one")
    if len(given := kinds(settings)) > 1:
        raise PeerError(INVALID, f"a queue has one of {', '.join(given)}, not two of them: leave out all but one")
    _check_shares(settings)
    if settings.overflow and not settings.limited:
        text = "what happens at a limit needs a limit: give max_count or max_size, or leave overflow out"
        raise PeerError(INVALID, text)
    if settings.limited and not settings.overflow:
        # By RabbitMQ's words the oldest goes; by Qpid's what comes is refused.
        theirs = {"x-max-length", "x-max-length-bytes"}.intersection(arguments)
        settings = replace(settings, overflow=RING if theirs else REJECT)
    settings = _with_backoff(settings)
    _check_flow(settings)
    _check_alerts(settings)
    if settings.auto_delete_timeout_s != DEFAULT and not (settings.auto_delete or settings.exclusive):
        raise PeerError(INVALID, "auto_delete_timeout_s needs auto_delete or exclusive: give one, or leave it out")
    return settings


def _with_lifetime(settings: QueueSettings) -> QueueSettings:
    """In the one spelling: that it goes with its last consumer, or with its client, is said by these.

    Raises:
        PeerError: `invalid`, they say otherwise.
    """
    lifetime = settings.lifetime
    against = {MANUAL: ("auto_delete", "exclusive"), ON_CLOSE: ("auto_delete",)}.get(lifetime, ())
    if said := [name for name in against if getattr(settings, name)]:
        raise PeerError(INVALID, f"a queue of lifetime {lifetime} has no {said[0]}: leave one of the two out")
    return replace(
        settings,
        lifetime=lifetime if settings.goes_empty else "",
        auto_delete=settings.auto_delete or lifetime in (IF_UNUSED, IF_EMPTY),
        exclusive=settings.exclusive or lifetime == ON_CLOSE,
    )


def _with_backoff(settings: QueueSettings) -> QueueSettings:
    """In the one spelling: RabbitMQ's word for whether there is one is said by the times themselves.

    Raises:
        PeerError: `invalid`, it is said in two ways, or not whole.
    """
    least, most = settings.retry_delay_min_ms, settings.retry_delay_max_ms
    if settings.retry_type == "disabled":
        return replace(settings, retry_type="", retry_delay_min_ms=0, retry_delay_max_ms=0)
    if settings.retry_delay_s and (least or most or settings.retry_type):
        text = "retry_delay_s and retry_delay_min_s are two ways to say how long what comes back waits: give one"
        raise PeerError(INVALID, f"{text}, and retry_delay_max_s only beside the second")
    if (most or settings.retry_type) and not least:
        text = "how long what comes back waits each time is missing: give retry_delay_min_s (x-delayed-retry-min)"
        raise PeerError(INVALID, f"{text}, or leave out what is said of it")
    if 0 < most < least:
        text = f"retry_delay_max_s {most / 1000:g} is below retry_delay_min_s {least / 1000:g}"
        raise PeerError(INVALID, f"{text}: give at least as much, or leave it out")
    return replace(settings, retry_type="")


def _check_shares(settings: QueueSettings) -> None:
    """Raises PeerError: `invalid`, there is a share of what the queue does not have."""
    if (settings.fairshare or settings.fairshare_of) and settings.levels == 1:
        raise PeerError(INVALID, "fairshare is of levels of priority: give at least 2 priorities, or leave it out")
    for level in settings.fairshare_of:
        if level >= settings.levels:
            text = f"qpid.fairshare-{level} is of a level that is not there: the queue has 0 to {settings.levels - 1}"
            raise PeerError(INVALID, text)


def kinds(settings: QueueSettings) -> list[str]:
    """The arguments by which it is of another kind than plain."""
    given = {
        "priorities": settings.priorities or settings.max_priority,
        "last_value_key": settings.last_value_key,
        "group_key": settings.group_key,
        "fair_key": settings.fair_key,
    }
    return [name for name, value in given.items() if value]


def _check_flow(settings: QueueSettings) -> None:
    """Raises PeerError: `invalid`, its thresholds contradict each other, or its limits."""
    if settings.overflow in (RING_STRICT, SELF_DESTRUCT) and kinds(settings):
        text = f"a queue with {kinds(settings)[0]} cannot be {settings.overflow}: give overflow ring or reject"
        raise PeerError(INVALID, text)
    if settings.overflow == DEAD_LETTER and settings.last_value_key:
        raise PeerError(INVALID, "a queue with last_value_key cannot be dead-letter: give overflow ring or reject")
    for what, (stop, resume) in zip(("count", "size"), settings.thresholds, strict=True):
        given = getattr(settings, f"flow_stop_{what}"), getattr(settings, f"flow_resume_{what}")
        limit = getattr(settings, f"max_{what}")
        if not stop and given[1] != DEFAULT:
            raise PeerError(
                INVALID, f"flow_resume_{what} needs a flow_stop_{what}, or a limit at which messages are refused"
            )
        if stop and resume > stop:
            text = f"flow_resume_{what} {resume} is above flow_stop_{what} {stop}: producers could never go on as meant"
            raise PeerError(INVALID, text)
        if limit and stop > limit:
            text = f"flow_stop_{what} {stop} is above the limit of {limit}: give less, or 0 for no flow control"
            raise PeerError(INVALID, text)


def _check_alerts(settings: QueueSettings) -> None:
    """Raises PeerError: `invalid`, thresholds of an alert contradict each other."""
    for what in LEVELS:
        up, down = (getattr(settings, f"alert_{what}_{way}") for way in ("up", "down"))
        if down != DEFAULT and not up:
            raise PeerError(INVALID, f"alert_{what}_down needs an alert_{what}_up: give it, or leave both out")
        if down >= up > 0:
            text = f"alert_{what}_down {down} is not below alert_{what}_up {up}: the alert would never be over as meant"
            raise PeerError(INVALID, text)
    if settings.alert_repeat_gap != ALERT_GAP_S and not settings.alerts:
        raise PeerError(INVALID, "alert_repeat_gap needs an alert: give alert_count_up, alert_size_up or alert_age_up")
