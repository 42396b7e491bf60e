"""Why a catalogue cannot be used: codes, and what each asks its operator to do."""

from __future__ import annotations

from ...protocol.errors import StoreError

CATALOG_UNAVAILABLE = "catalog-unavailable"
"""It may pass: the server is away, the file is locked, there is no room."""
CATALOG_DAMAGED = "catalog-damaged"
CATALOG_MISSING = "catalog-missing"
CATALOG_OUSTED = "catalog-ousted"
CATALOG_URL = "catalog-url"
NOT_OUR_STORE = "not-our-store"
STORE_FORMAT = "store-format"

EMPTY_IT = "or empty the store's directory, and the broker comes back blank and is brought up to date by the others"


def missing(where: str) -> StoreError:
    text = f"{where} is not there, and this store has saved its wiring: put it back as it was, {EMPTY_IT}"
    return StoreError(CATALOG_MISSING, text)


def damaged(where: str, what: str) -> StoreError:
    return StoreError(CATALOG_DAMAGED, f"{where} is damaged ({what}): see to the disk, {EMPTY_IT}")


def foreign(where: str, whose: str) -> StoreError:
    text = f"{where} belongs to {whose}: name the directory or the catalogue that belong to this store"
    return StoreError(NOT_OUR_STORE, text)


def too_new(where: str, version: int, known: int) -> StoreError:
    text = f"{where} has version {version}, and this program knows {known}"
    return StoreError(STORE_FORMAT, f"{text}: start the program that wrote it, or a newer one")


def ousted(where: str) -> StoreError:
    text = f"{where} was opened by another process of this store, or put back from a copy: end this one"
    return StoreError(CATALOG_OUSTED, text)


def unavailable(where: str, why: str, do: str) -> StoreError:
    return StoreError(CATALOG_UNAVAILABLE, f"{where}: {why}: {do}")


def first_line(error: BaseException) -> str:
    """What a database says, without its hints and without the statement."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip()
