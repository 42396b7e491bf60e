"""A form with a file, as browsers send it: its parts. Pure."""

from __future__ import annotations

from email.message import Message

from ...client.errors import Invalid

KIND = "multipart/form-data"
MOST_PARTS = 50


def parts_of(content_type: str, body: bytes) -> dict[str, bytes]:
    """Field -> what it has; of several of one name the last.

    Raises:
        Invalid: these are no parts of a form.
    """
    boundary = _parameter(content_type, "boundary")
    if not boundary:
        raise Invalid(
            f"a form with a file says what is between its parts ({KIND}; boundary=...): send it from its page"
        )
    between = b"\r\n--" + boundary.encode("latin-1", "replace")
    first, *parts = (b"\r\n" + body).split(between, MOST_PARTS + 1)
    if first or not parts or not parts[-1].startswith(b"--"):
        raise Invalid(f"a form with a file begins and ends with its boundary, and has at most {MOST_PARTS} parts")
    found: dict[str, bytes] = {}
    for part in parts[:-1]:
        head, blank, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = _name(head.decode("latin-1")) if blank else ""
        if not name:
            raise Invalid(
                "a part of a form has a head with its name, and a blank line behind that: send it from its page"
            )
        found[name] = content
    return found


def _name(head: str) -> str:
    for line in head.split("\r\n"):
        key, _, value = line.partition(":")
        if key.strip().casefold() == "content-disposition":
            return _parameter(value, "name")
    return ""


def _parameter(value: str, name: str) -> str:
    """Of a header's value, "" where it has none."""
    header = Message()
    header["content-type"] = value.strip().replace("\r", " ").replace("\n", " ")
    found = header.get_param(name)
    return found if isinstance(found, str) else ""
