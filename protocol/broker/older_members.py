"""Why a change of the wiring cannot be ordered yet: a member of the cluster is of an older version."""

from __future__ import annotations

OLDER_BINDING = (
    "such a binding cannot be made yet: a member of the cluster is of an older version, and would route otherwise: "
    "upgrade all members first"
)
OLDER_EXCHANGE = (
    "exchange {!r} cannot have these arguments yet: a member of the cluster is of an older version, and would not keep "
    "to them: upgrade all members first"
)
OLDER_REDIRECT = (
    "no queue can be redirected yet: a member of the cluster is of an older version, and would send to it all the "
    "same: upgrade all members first"
)
