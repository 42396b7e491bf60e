"""How a process of a cluster writes its log: each record of Python's `logging` is one line, as text or as JSON.

    log.warning("%(member)s has died: %(reason)s", {"member": name, "reason": why, "member_host": host})

The one argument of a call is a map: the sentence is made of it, and its values are the line's keys. So a program of a
user's, whose loggers are its own, reads the same sentences, and nothing is set up there: `set_up` is for processes
that are ours, the actors' and `mantamq up`'s.

    2026-11-27T09:43:35.120Z WARNING supervisor: b1 has died: its node went member_host=10.0.0.7
    {"time": "2026-11-27T09:43:35.120Z", "level": "warning", "event": "b1 has died: its node went", "member": "b1", ...}

Whatever is in a name, it is one line, and none that begins like another's: what a terminal would obey is shown as an
escape, and what follows a line of text (a traceback) is indented.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from .config import LogConfig

OURS = "mantamq"
"""The logger above all of ours: others' are heard from `logging.WARNING` on, whatever level is chosen."""
OWN_KEYS = ("time", "level", "event", "cluster", "host", "actor", "logger", "exception", "stack")
"""Keys of a line that no call may give another meaning."""
HIDDEN = "(hidden)"
SHORTEST = 6
"""A shorter secret is not looked for: it would be found in words that are none."""
IN_URL = re.compile(r"(?<=://)[^/\s@\"']+:[^/\s@\"']+(?=@)")
"""User and password of an address, such as a database's."""
NAMED = re.compile(r"%\((\w+)\)")
"""A key that the sentence says."""
BARE = re.compile(r"[\w.:/#@+-]+")
"""A value that needs no quotes in a line of text."""


def set_up(logs: LogConfig, actor: str = "", secrets: Collection[str] = ()) -> None:
    """From now on this process writes its log so, to its standard error; a later call takes the place of this one.

    Args:
        actor: who this is, in each line.
        secrets: texts that are in no line.
    """
    handler = _ToStderr()
    handler.setFormatter(lines(logs, actor, secrets))
    level = logging.getLevelNamesMapping()[logs.level.upper()]
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
    logging.getLogger(OURS).setLevel(level)


def lines(logs: LogConfig, actor: str = "", secrets: Collection[str] = ()) -> logging.Formatter:
    """What makes a line of a record."""
    structlog = _structlog()
    own = {"cluster": logs.cluster, "host": logs.host, "actor": actor}
    own = {key: value for key, value in own.items() if value}
    hidden = [secret for secret in secrets if len(secret) >= SHORTEST]

    def keys(logger: Any, method: str, told: dict[str, Any]) -> dict[str, Any]:
        """The line's keys, in their order."""
        record: logging.LogRecord = told["_record"]
        given = told.get("positional_args")
        told = structlog.processors.format_exc_info(logger, method, told)
        line = {"time": _time(record.created), "level": record.levelname.lower(), "event": told["event"], **own}
        for key, value in given.items() if isinstance(given, Mapping) else ():
            line.setdefault(str(key), value)
        line["logger"] = record.name
        if "exception" in told:
            line["exception"] = told["exception"]
        return {"_template": str(record.msg), **{key: _plain(value, hidden) for key, value in line.items()}}

    return structlog.stdlib.ProcessorFormatter(
        processors=[keys, *([_without_template, structlog.processors.JSONRenderer()] if logs.json else [_text])],
        pass_foreign_args=True,
    )


def _structlog() -> Any:
    """The library, which a program that only starts a cluster need not have in memory. It would load all of `rich`
    for a renderer that is not used here: 70 ms and 5 MB in each of a cluster's processes."""
    spared = "rich" not in sys.modules
    if spared:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        if spared:
            del sys.modules["rich"]
    return structlog


class _ToStderr(logging.StreamHandler[TextIO]):
    """To what is standard error at that moment: a display that shows how far something is takes its place for a while,
    and keeps lines and itself apart."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # pyright: ignore[reportIncompatibleVariableOverride]
        return sys.stderr


def _without_template(logger: Any, method: str, line: dict[str, Any]) -> dict[str, Any]:
    del line["_template"]
    return line


def _text(logger: Any, method: str, line: dict[str, Any]) -> str:
    """Time, level, who, the sentence, and the keys that it does not say."""
    said = {*OWN_KEYS, "_template", *NAMED.findall(line["_template"])}
    who = line.get("actor") or line["logger"]
    words = [line["time"], line["level"].upper(), f"{who}:", line["event"]]
    words += [f"{key}={_value(value)}" for key, value in line.items() if key not in said]
    rest = line.get("exception", "").splitlines()
    return "\n    ".join([_printable(" ".join(words)), *map(_printable, rest)])


def _value(value: Any) -> str:
    if isinstance(value, str) and BARE.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _printable(text: str) -> str:
    """A text in one line, in which nothing moves a terminal's cursor or changes its colours."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _plain(value: Any, secrets: Collection[str]) -> Any:
    """A value as JSON has it, without passwords and secrets."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {_plain(str(key), secrets): _plain(one, secrets) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one, secrets) for one in value]
    text = str(value)
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return IN_URL.sub(HIDDEN, text) if "://" in text else text


def _time(created_s: float) -> str:
    """In UTC, with milliseconds."""
    return datetime.fromtimestamp(created_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
