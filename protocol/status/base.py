"""How a status crosses a call or a link: as plain values with its field names, read back with defaults.

A process may be asked by one of another version. So a status is never pickled: `plain` is what leaves, and `read` makes
a struct of it again. Fields of a newer member that are unknown here are ignored. A field that is added has a default,
which is what an older member is taken to say; fields without a default have always been there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from ..errors import LocalError


class StatusStruct(msgspec.Struct, kw_only=True):
    """A status. A field that is `UNSET` has no key among the plain values."""

    def plain(self) -> dict[str, Any]:
        """The same as dictionaries, lists, strings and numbers, for a frame, a call or JSON."""
        return msgspec.to_builtins(self)

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """What another process has said of itself.

        Raises:
            LocalError: a field that has always been there is missing, or of another type.
        """
        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise LocalError(f"its status cannot be read, it may be of another version: {error}") from None
