"""Containers that are damaged, copied aside before the log goes on: for whoever may still get something out of them.

A log with damage is used all the same (`durable.md` 6): what needs the damaged part begins anew, the tail moves on, and
the containers become spares. What stood behind the damage may be of use as well, since the records there lead into it;
so all from the damage on is kept, until an operator removes it. As a file system's lost+found: nothing reads it again.
"""

from __future__ import annotations

from ..files import Files, write_whole
from .containers import container_name, container_numbers


def copy_aside(files: Files, folder: str, aside: str, damaged: int, size_bytes: int) -> list[str]:
    """Copy a log's containers from the damaged one on, unless that was done when it was found before.

    Args:
        folder: of the log.
        aside: the folder for its copies; made if it is not there.
        damaged: an LSN in the first that is damaged.
        size_bytes: of a container.

    Returns:
        The paths of what was copied.

    Raises:
        OSError: of the disk: one that is full, or that cannot read what is on it. What was copied before is whole.
    """
    first = damaged // size_bytes
    needed = [number for number in container_numbers(files.list(folder))[:-1] if number >= first]  # the last is new
    there = set(container_numbers(files.list(aside))) if files.exists(aside) else set[int]()
    if not needed or needed[0] in there:
        return []  # the oldest goes last: with that all were copied
    files.make_folder(aside)
    copied: list[str] = []
    for number in reversed(needed):
        if number not in there:
            name = container_name(number)
            write_whole(files, f"{aside}/{name}", _content(files, f"{folder}/{name}"))
            copied.append(f"{aside}/{name}")
    return copied


def _content(files: Files, path: str) -> bytes:
    file = files.open(path, read_only=True)
    try:
        return file.pread(file.size, 0)
    finally:
        file.close()
