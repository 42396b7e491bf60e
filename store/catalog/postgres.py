"""The catalogue as a schema in PostgreSQL: one for each store, each commit flushed, and nobody waits long for a server
that does not answer."""

from __future__ import annotations

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from ...protocol.errors import StoreError
from .refusals import CATALOG_URL, damaged, first_line, unavailable

CONNECT_S = 5
ANSWER_S = 10

DO = {
    "28": "name a user and a password that it takes, in the URL or in ~/.pgpass",
    "3D": "make that database, or name another one",
    "42501": "let that user make schemas in the database (GRANT CREATE ON DATABASE), or make the schema for it",
    "53": "see to the server's room and its connections",
    "55P03": "another program has the tables locked: end that one",
    "40": "it is tried again",
    "57": "it is tried again: start the server if it does not start by itself",
    "08": "it is tried again: start the server, or see to the network",
    "": "see that the server runs and is reached from here, and to what it says",
}
"""The first characters of an error's SQLSTATE -> what to do."""
STATES = {"authentication": "28", "password": "28", "pg_hba": "28", "role": "28", "does not exist": "3D"}
"""An error that comes instead of a connection has no SQLSTATE, only words."""
DAMAGED = ("XX001", "XX002")


class PostgresDatabase:
    """Args:
    url: of the database.
    schema: where the tables are.

    Attributes:
        where: how it is called in a refusal, without its password.
    """

    def __init__(self, url: URL, schema: str) -> None:
        self.schema: str | None = schema
        place = url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
        self.where = f"the catalogue in {place}, schema {schema}"
        # A server may be told to answer before a commit is flushed; ours is not asked whether it was.
        ours = f"-c search_path={schema} -c synchronous_commit=on -c statement_timeout={ANSWER_S}s -c lock_timeout=5s"
        given = url.query.get("options", "")
        self._arguments = {
            "options": f"{given if isinstance(given, str) else ' '.join(given)} {ours}".strip(),
            "connect_timeout": CONNECT_S,
            "keepalives_idle": ANSWER_S,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": ANSWER_S * 1000,
            "application_name": "mantamq",
        }
        self._url = url

    def engine(self, mode: str) -> Engine:
        """Makes connections; one of `mode` "ro" writes nothing."""
        arguments = dict(self._arguments)
        if mode == "ro":
            arguments["options"] = f"{arguments['options']} -c default_transaction_read_only=on"
        try:
            return create_engine(
                self._url, connect_args=arguments, poolclass=NullPool, isolation_level="REPEATABLE READ"
            )
        except ModuleNotFoundError:
            text = "PostgreSQL's driver is not installed: pip install 'mantamq[postgres]'"
            raise StoreError(CATALOG_URL, text) from None

    def there(self) -> bool:
        """Whether it may be looked into."""
        return True

    def check(self, connection: Connection) -> None:
        """The server sees to its pages."""

    def make_room(self, connection: Connection) -> None:
        """Make the schema, unless its operator has."""
        known = text("SELECT 1 FROM pg_namespace WHERE nspname = :schema")
        if connection.execute(known, {"schema": self.schema}).first() is None:
            connection.execute(text(f'CREATE SCHEMA "{self.schema}"'))

    def settle(self, connection: Connection) -> None:
        """The tables are ours."""

    def refusal(self, error: Exception) -> StoreError:
        """Why the server has not done what was asked."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        state = str(getattr(cause, "sqlstate", None) or "")
        if state in DAMAGED:
            return damaged(self.where, first_line(cause))
        said = first_line(cause)
        state = state or next((code for word, code in STATES.items() if word in said), "")
        do = next(do for code, do in DO.items() if state.startswith(code))
        return unavailable(self.where, said, do)
