"""`mantamq` and `python -m mantamq`: this file is installed beside the sub-packages, as the `__main__` of `mantamq`.

Nothing is loaded before `main` runs, so that Ctrl-C while everything loads is no traceback.
"""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from .client.cli.app import main as command  # type: ignore[import-not-found]
    except KeyboardInterrupt:
        print("mantamq: interrupted", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
