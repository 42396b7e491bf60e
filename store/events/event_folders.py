"""A folder of parts for each cluster: queues and positions of two clusters have nothing to do with each other.

A cluster's folder is named by when it began and by its id. One that is started again with its stores keeps its id, and
goes on in the folder that it has. Whoever reads may name either a cluster's folder or the directory above: then that of
the cluster which has written last is meant.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from .event_parts import WriterLimits, filesystem, list_parts

_NAME = re.compile(r"^cluster-\d{8}T\d{6}-[0-9a-f]+$")


def folder_of(directory: str, began_s: float, cluster: str) -> str:
    """Where a cluster's parts go.

    Args:
        directory: of all clusters: a path or URL.
        began_s: Unix time of its start.
        cluster: its id, hexadecimal.
    """
    began = datetime.fromtimestamp(began_s, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{directory.rstrip('/')}/cluster-{began}-{cluster}"


def folders(directory: str) -> list[str]:
    """The clusters' folders in a directory, the oldest first, as one may name them."""
    fs, path = filesystem(directory)
    fs.invalidate_cache()
    try:
        found = fs.ls(path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = sorted(one["name"].rstrip("/").rpartition("/")[2] for one in found if one["type"] == "directory")
    return [f"{directory.rstrip('/')}/{name}" for name in names if _NAME.match(name)]


def own_folder(folder: str) -> str:
    """Where a cluster goes on that `folder` is for, by its name: in the one that it has, if it was started before."""
    directory, _, name = folder.rpartition("/")
    mine = [one for one in folders(directory) if one.rpartition("-")[2] == name.rpartition("-")[2]]
    return mine[-1] if mine else folder


def newest_folder(directory: str) -> str:
    """The folder to read: `directory` itself, or that of the cluster in it which has written the last part."""
    if not directory or list_parts(directory).parts:
        return directory
    last = {folder: parts[-1].time_last_us for folder in folders(directory) if (parts := list_parts(folder).parts)}
    return max(last, key=lambda folder: (last[folder], folder), default=directory)


def forget_folders(directory: str, own: str, limits: WriterLimits, now_us: int) -> list[str]:
    """Remove what earlier clusters left, where it is too old or too much: what the own folder has counts first.

    Returns:
        The folders that are gone.
    """
    fs, _ = filesystem(directory)
    gone: list[str] = []
    total = sum(part.bytes for part in list_parts(own).parts)
    for folder in reversed(folders(directory)):
        if folder == own:
            continue
        parts = list_parts(folder).parts
        newest_us = parts[-1].time_last_us if parts else 0
        total += sum(part.bytes for part in parts)
        too_old = limits.keep_s and now_us - newest_us > limits.keep_s * 1e6
        if parts and (too_old or (limits.keep_bytes and total > limits.keep_bytes)):
            fs.rm(filesystem(folder)[1], recursive=True)
            gone.append(folder)
    return gone
