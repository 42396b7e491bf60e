"""A PostgreSQL server of the tests' own: on a Unix socket in a folder of its own, and gone with the tests, however
they end.

PostgreSQL does not run as root: there it is given to the user `postgres`, or to `nobody`. The server is a child of the
tests' process and asks the kernel to be ended when that is.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

USER, PASSWORD = "manta", "s3cret:@/word"
MUST = "MANTA_MUST_HAVE_POSTGRESQL"
"""With this in the environment nothing is skipped for want of a server: CI has one."""
START_S = 60.0
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def programs() -> Path | None:
    """The folder with PostgreSQL's programs: Debian keeps them out of the way."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    return folders[-1].parent if folders else None


def why_not() -> str:
    """Why no server can be started here; "" when it can."""
    if programs() is None:
        return "PostgreSQL's server is not installed (Debian: apt-get install postgresql)"
    return ""


def _account() -> pwd.struct_passwd | None:
    """As which user the server runs; None: as this one."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _ends_with_us() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


class Server:
    """Attributes:
    folder: of its data and its socket; short, since a socket's path may not be long.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="manta-pg-", dir="/tmp"))
        self._account = _account()
        self._process: subprocess.Popen[bytes] | None = None
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        words = (
            f"initdb -D {self.folder}/data -U {USER} -A scram-sha-256 --pwfile {secret} -E UTF8 --locale C --no-sync"
        )
        done = subprocess.run(self._words(words), capture_output=True, text=True, check=False, **self._as())
        assert done.returncode == 0, done.stderr
        self.start()

    def _words(self, line: str) -> list[str]:
        name, *rest = line.split()
        folder = programs()
        assert folder is not None
        return [str(folder / name), *rest]

    def _as(self) -> dict[str, Any]:
        if self._account is None:
            return {"cwd": self.folder}
        return {
            "cwd": self.folder, "user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": (),
        }  # fmt: skip

    def start(self) -> None:
        """Start it, again or for the first time, and wait until it answers."""
        log = (self.folder / "log").open("ab")
        words = f"postgres -D {self.folder}/data -k {self.folder} -c listen_addresses= -c max_connections=20"
        self._process = subprocess.Popen(
            self._words(words), stdout=log, stderr=log, preexec_fn=_ends_with_us, start_new_session=True, **self._as()
        )
        log.close()
        end = time.monotonic() + START_S
        while True:
            try:
                self.ask("SELECT 1")
                return
            except psycopg.OperationalError:
                said = (self.folder / "log").read_text()
                assert self._process.poll() is None, said
                assert time.monotonic() < end, said
                time.sleep(0.02)

    def stop(self) -> None:
        """As if its machine lost power, but for the page cache: nobody is waited for, nothing is tidied."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, user: str = USER, password: str = PASSWORD, database: str = "postgres") -> str:
        secret = password.replace(":", "%3A").replace("@", "%40").replace("/", "%2F")
        return f"postgresql://{user}:{secret}@/{database}?host={self.folder}"

    def ask(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement as the server's owner, in a connection of its own."""
        place = psycopg.connect(
            user=USER, password=PASSWORD, host=str(self.folder), dbname="postgres", autocommit=True, connect_timeout=5
        )
        with place as connection:
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []

    def end_connections(self) -> None:
        """Every connection to it breaks; the server goes on."""
        with suppress(psycopg.Error):
            self.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'mantamq'")
