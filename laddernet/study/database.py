"""The database of a store: its tables, how it is opened and created, and its errors as one sentence."""

import json
import os
import re
import sqlite3
import uuid
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError

from laddernet.errors import AbsentError, InputError, packages
from laddernet.files import writing
from laddernet.study.addresses import shown, shown_all

# The application id in a SQLite file's header ("LADD"), and the advisory lock in PostgreSQL for additions.
APPLICATION = 0x4C414444
_VERSION = 1  # of the schema

_metadata = sa.MetaData()
_store = sa.Table("laddernet_store", _metadata, sa.Column("version", sa.Integer, nullable=False))
JSON = sa.JSON(none_as_null=True)
runs = sa.Table(
    "laddernet_runs",
    _metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),  # the order in which runs were added
    sa.Column("config", JSON, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("lease", sa.Double),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("progress", JSON),
    sa.Column("error", sa.Text),
    sa.Column("result", JSON),
    sa.Column("environment", JSON),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("started", sa.Double),
    sa.Column("finished", sa.Double),
    sa.Column("history", JSON),  # long, so last: SQLite reads a row only up to the last column that is needed
    sa.Index("laddernet_runs_open", "status", "lease", "number"),
)

DAMAGED = "The store {} is damaged ({}); restore a copy of it, or name a new store."
_ABSENT = "There is no study in {}; name a store that a study has used."
_FOREIGN = "{} holds the data of another program; name a store of laddernet, or a new one."
_FILE_ADVICE = "name a store of laddernet or a new file, in a folder that you may write to"
_SERVER_ADVICE = "check the address, that the server runs, and the rights of the user"

# JSON has no NaN, and PostgreSQL would refuse it.
_create_engine = partial(sa.create_engine, json_serializer=partial(json.dumps, allow_nan=False))


def open_database(where: str | os.PathLike[str], create: bool) -> tuple[sa.Engine, str]:
    """Return the engine of a store in a file or at an address, and the store's name without a password."""
    url = _url(where) if isinstance(where, str) and "://" in where else None
    if url is None or url.get_backend_name() == "sqlite":
        path = Path(url.database or "" if url else where).absolute()
        return _open_file(path, create), str(path)
    url = url.set(drivername="postgresql+psycopg", query={"connect_timeout": "10", **url.query})
    with packages("A store in PostgreSQL"):
        return _create_engine(url, pool_pre_ping=True), shown(str(where))


def check_schema(connection: sa.Connection, name: str, create: bool) -> bool:
    """Check that the database has this version's schema and can be written to.

    Create the schema if the database is empty, and return whether that was done.
    """
    tables = sa.inspect(connection).get_table_names()
    created = _store.name not in tables
    if created:
        if tables and not _are_optunas(tables):
            raise InputError(_FOREIGN.format(name))
        if not create:
            raise AbsentError(_ABSENT.format(name))
        if connection.dialect.name == "sqlite":
            _mark(connection)
        _create(connection)
    _check_version(name, connection.scalar(sa.select(_store.c.version)))
    connection.execute(sa.update(runs).where(sa.false()).values(attempts=0))
    return created


@contextmanager
def explained(name: object, sqlite: bool) -> Iterator[None]:
    """Turn an error of the database inside the block into an `InputError` with the store's name and the reason."""
    advice = _FILE_ADVICE if sqlite else _SERVER_ADVICE
    try:
        yield
    # SQLite's own messages may quote damaged text, and not every text is a valid host name.
    except (DBAPIError, sqlite3.Error, UnicodeError) as error:
        reason = shown_all(str(error.orig if isinstance(error, DBAPIError) else error).partition("\n")[0])
        raise InputError(f"Cannot use the store {name} ({reason}); {advice}.") from error


def _url(text: str) -> sa.URL:
    """Parse an address; an error does not quote it, since it may contain a password."""
    example = "write it as postgresql://user:password@host/database, with special characters as %40 for @"
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise InputError(f"The address of the store is not valid; {example}.") from None
    if url.get_backend_name() not in ("postgresql", "postgres", "sqlite"):
        raise InputError(f"A store cannot be at {url.get_backend_name()}://; name a file, or a postgresql:// address.")
    if "@" in (url.host or ""):
        raise InputError(f"The address of the store has more than one @; {example}.")
    return url


def _open_file(path: Path, create: bool) -> sa.Engine:
    with writing(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file in it.")
        if not path.exists():
            if not create:
                raise AbsentError(_ABSENT.format(path))
            _create_file(path)
    # Immutable: nothing is written, not even the recovery after a crash of another program. The file is read through
    # SQLite, because a process that opens and closes it otherwise loses all of its locks on it.
    with (
        explained(path, sqlite=True),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as f,
    ):
        application, version = (
            f.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if application != APPLICATION:
            tables = [row[0] for row in f.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            if not _are_optunas(tables):
                raise InputError(_FOREIGN.format(path))
    _check_version(path, version)

    engine = _create_engine(sa.URL.create("sqlite", database=str(path)), connect_args={"timeout": 60})

    @sa.event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver begins no transaction by itself
        connection.execute("PRAGMA synchronous=FULL")  # a commit is on the disk when it returns

    return engine


def _create_file(path: Path) -> None:
    """Create an empty store beside ``path`` and move it there, unless another process has put one there first."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch()
        engine = sa.create_engine(sa.URL.create("sqlite", database=str(temporary)), poolclass=sa.NullPool)
        with explained(path, sqlite=True), engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            _mark(connection)
            _create(connection)
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{temporary}{end}").unlink(missing_ok=True)


def _mark(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION}")
    connection.exec_driver_sql(f"PRAGMA user_version={_VERSION}")


def _are_optunas(tables: Collection[str]) -> bool:
    """Return whether a database has Optuna's tables and no others: a search creates them before any run is added.

    >>> _are_optunas(["studies", "trials", "trial_params", "alembic_version"]), _are_optunas(["trials"])
    (True, False)
    """
    names = r"studies|study_\w+|trials|trial_\w+|version_info|alembic_version"
    return "alembic_version" in tables and all(re.fullmatch(names, name) for name in tables)


def _create(connection: sa.Connection) -> None:
    _metadata.create_all(connection)
    connection.execute(sa.insert(_store).values(version=_VERSION))


def _check_version(name: object, version: object) -> None:
    if not isinstance(version, int):
        raise InputError(DAMAGED.format(name, "its version"))
    if version > _VERSION:
        advice = "use that one, or name another store"
        raise InputError(f"{name} was made by a newer laddernet (store version {version}, not {_VERSION}); {advice}.")
