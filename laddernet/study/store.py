"""The durable record of a study's runs: a SQLite file, or a PostgreSQL database that a team shares.

A run is known by its fingerprint. It is waiting, running, done or failed, and moves between these in short
transactions, so that a process may be killed at any moment. Who claims a run holds it on a lease that heartbeats
extend; when the lease has expired the run counts as waiting again, and another driver may claim it. Only who holds a
run can write its end, so it is written once.
"""

import json
import math
import os
import re
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError

from laddernet.errors import AbsentError, InputError
from laddernet.files import locked, writing
from laddernet.study.storage import shown, shown_all

STATUSES = ("waiting", "running", "done", "failed")

Json = dict[str, Any]

# The mark in a SQLite file's header ("LADD"), and the lock in PostgreSQL under which runs and the schema are added.
_APPLICATION = 0x4C414444
_VERSION = 1  # of the schema

_metadata = sa.MetaData()
_store = sa.Table("laddernet_store", _metadata, sa.Column("version", sa.Integer, nullable=False))
_json = sa.JSON(none_as_null=True)
_runs = sa.Table(
    "laddernet_runs",
    _metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False),  # the order in which runs were added
    sa.Column("config", _json, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("lease", sa.Double),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("progress", _json),
    sa.Column("error", sa.Text),
    sa.Column("result", _json),
    sa.Column("environment", _json),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("started", sa.Double),
    sa.Column("finished", sa.Double),
    sa.Column("history", _json),  # long, so last: SQLite reads a row up to what is asked for
    sa.Index("laddernet_runs_open", "status", "lease", "number"),
)


@dataclass(frozen=True)
class Run:
    """A run as the store knows it. Times are in seconds since 1970, UTC."""

    fingerprint: str
    config: Json
    status: str
    owner: str | None  # who holds it, or ended it
    lease: float | None  # until when
    attempts: int  # how often it was claimed
    progress: Json | None
    error: str | None
    result: Json | None
    environment: Json | None
    created: float
    started: float | None
    finished: float | None
    history: list[Json] | None = None  # only where it was asked for


class Store:
    """The runs of a study. Open it with :meth:`open`; threads may share it.

    Each process opens its own, and not after it was forked from one that has it open.

    >>> import tempfile
    >>> store = Store.open(Path(tempfile.mkdtemp()) / "study.db")
    >>> store.add({"f1": {"model": "vanilla", "seed": 1}})
    ['f1']
    >>> [run.config["model"] for run in store.claim("driver 1")]
    ['vanilla']
    >>> store.claim("driver 2")
    []
    >>> store.finish("driver 1", "f1", {"test_error": 1.5}, [{"epoch": 1}], {"python": "3.11"})
    True
    >>> store.counts()
    {'waiting': 0, 'running': 0, 'done': 1, 'failed': 0}
    """

    def __init__(self, engine: sa.Engine, name: str, lease: float, clock: Callable[[], float] | None) -> None:
        self.name = name  # for people: without a password
        self._engine = engine
        self._sqlite = engine.dialect.name == "sqlite"
        self._lease = lease
        self._clock = clock

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str],
        *,
        create: bool = True,
        lease: float = 60.0,
        clock: Callable[[], float] | None = None,
    ) -> "Store":
        """Open the store in a file or at a ``postgresql://`` address; make it if there is none and ``create`` is true.

        ``lease`` is for how many seconds a run is held without a heartbeat. ``clock`` replaces the clock by which
        leases are measured: the server's in PostgreSQL, else this machine's.
        """
        url = _url(where) if isinstance(where, str) and "://" in where else None
        if url is None or url.get_backend_name() == "sqlite":
            path = Path(url.database or "" if url else where).absolute()
            store = cls(_open_file(path, create), str(path), lease, clock)
        else:
            store = cls(_open_server(url), shown(str(where)), lease, clock)
        try:
            with store._begin(alone=True) as connection:
                store._check(connection, create)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close all connections. The store opens them again when it is used."""
        self._engine.dispose()

    def add(self, configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Add the runs that are not there yet, given by fingerprint; return the fingerprints of these."""
        with self._begin(alone=True) as connection:
            held = set(connection.scalars(sa.select(_runs.c.fingerprint)))
            new = [fingerprint for fingerprint in configs if fingerprint not in held]
            same = {"status": "waiting", "attempts": 0, "created": self._now(connection)}
            rows = [
                {"fingerprint": fingerprint, "number": number, "config": dict(configs[fingerprint]), **same}
                for number, fingerprint in enumerate(new, start=len(held))
            ]
            if rows:
                connection.execute(sa.insert(_runs), rows)
        return new

    def add_finished(self, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Record runs that were finished elsewhere; return the fingerprints of those that were not done here.

        A run is given by its ``config``, ``result``, ``history`` and ``environment``. One that is done here stays as it
        is; one that a driver holds is done now, and the driver's own end of it is not recorded.
        """
        self.add({fingerprint: run["config"] for fingerprint, run in runs.items()})
        with self._begin() as connection:
            open_ = sa.and_(_runs.c.status != "done", self._among(list(runs)))
            new = list(connection.scalars(sa.select(_runs.c.fingerprint).where(open_).with_for_update()))
            ended = {"status": "done", "owner": None, "lease": None, "error": None, "finished": self._now(connection)}
            for fingerprint in sorted(new):
                values = {name: runs[fingerprint][name] for name in ("result", "history", "environment")}
                # Without a start there is no duration, from which the time left is estimated.
                change = sa.update(_runs).where(_runs.c.fingerprint == fingerprint)
                connection.execute(change.values(started=None, **ended, **values))
        return new

    def claim(self, owner: str, fingerprints: Collection[str] | None = None, limit: int = 1) -> list[Run]:
        """Take up to ``limit`` waiting runs, of these or of all, in the order in which they were added.

        An ``owner`` is one living process: two must not use the same name.
        """
        with self._begin() as connection:
            now = self._now(connection)
            # Rows that another driver is about to take are passed over. SQLite has one writer, and no such clause.
            chosen = (
                sa.select(_runs.c.fingerprint)
                .where(_is_waiting(now), self._among(fingerprints))
                .order_by(_runs.c.number, _runs.c.fingerprint)
                .limit(limit)
                .with_for_update(skip_locked=True)
            )
            taken = list(connection.scalars(chosen))
            if not taken:
                return []
            held = {"status": "running", "owner": owner, "lease": now + self._lease, "started": now}
            cleared = {"progress": None, "error": None, "finished": None}
            change = sa.update(_runs).where(self._among(taken))
            connection.execute(change.values(attempts=_runs.c.attempts + 1, **held, **cleared))
            return self._read(connection, self._among(taken), now)

    def heartbeat(self, owner: str, progress: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
        """Extend the lease of these runs and record their progress, where it is not None.

        Returns the fingerprints of those that ``owner`` no longer holds.
        """
        with self._begin() as connection:
            lease = self._now(connection) + self._lease
            lost = []
            for fingerprint, value in sorted(progress.items()):  # one order, so that two cannot lock each other out
                values = {"lease": lease} if value is None else {"lease": lease, "progress": dict(value)}
                if not self._change(connection, owner, fingerprint, values):
                    lost.append(fingerprint)
        return lost

    def finish(
        self, owner: str, fingerprint: str, result: Json, history: Sequence[Mapping[str, Any]], environment: Json
    ) -> bool:
        """Record what came out of a run. False, and nothing is changed, if ``owner`` no longer holds it."""
        values = {"result": result, "history": list(history), "environment": environment}
        return self._end(owner, fingerprint, "done", values)

    def fail(self, owner: str, fingerprint: str, error: str) -> bool:
        """Record why a run failed. False, and nothing is changed, if ``owner`` no longer holds it."""
        # What PostgreSQL cannot hold: a zero byte, and half a character.
        plain = error.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
        return self._end(owner, fingerprint, "failed", {"error": plain})

    def release(self, owner: str, fingerprints: Collection[str] | None = None) -> int:
        """Give back these runs, or all, that ``owner`` holds, for others to claim; return how many."""
        held = sa.and_(_runs.c.status == "running", _runs.c.owner == owner)
        return self._set_waiting(held, fingerprints)

    def retry_failed(self, fingerprints: Collection[str] | None = None) -> int:
        """Let these runs, or all, that failed wait again; return how many."""
        return self._set_waiting(_runs.c.status == "failed", fingerprints)

    def runs(
        self, fingerprints: Collection[str] | None = None, status: str | None = None, *, history: bool = False
    ) -> list[Run]:
        """These runs, or all, in the order in which they were added; with their learning curves only if asked."""
        with self._begin(write=False) as connection:
            now = self._now(connection)
            condition = self._among(fingerprints)
            if status is not None:
                condition = sa.and_(condition, _status(now) == status)
            return self._read(connection, condition, now, history)

    def counts(self, fingerprints: Collection[str] | None = None) -> dict[str, int]:
        """How many of these runs, or of all, are in each status."""
        with self._begin(write=False) as connection:
            status = _status(self._now(connection)).label("status")
            # Grouped by its place: PostgreSQL does not see that two expressions with parameters are the same.
            query = sa.select(status, sa.func.count()).where(self._among(fingerprints)).group_by(sa.text("1"))
            found = {row[0]: row[1] for row in connection.execute(query)}
        if found.keys() - set(STATUSES):
            raise InputError(_DAMAGED.format(self.name, "the status of a run"))
        return {status: found.get(status, 0) for status in STATUSES}

    def damaged(self, run: Run, what: str) -> InputError:
        """The error to be raised where ``what`` of a run is not what a study has written."""
        return InputError(_DAMAGED.format(self.name, f"the {what} of run {str(run.fingerprint)[:13]!r}"))

    @property
    def url(self) -> sa.URL:
        """The database's address, with its password if it has one: for Optuna, whose tables stand beside ours."""
        return self._engine.url

    def has_table(self, name: str) -> bool:
        """Whether the database has a table of this name, ours or another program's."""
        with self._begin(write=False) as connection:
            return sa.inspect(connection).has_table(name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes that ask for the same out of the block; meanwhile the store can be used."""
        if self._sqlite:
            with locked(f"{self._engine.url.database}.lock", busy=f"Another process is using {self.name}."):
                yield
        else:
            with _told(self.name, _SERVER), self._engine.begin() as connection:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_APPLICATION + 1)))
                yield

    @contextmanager
    def _begin(self, *, write: bool = True, alone: bool = False) -> Iterator[sa.Connection]:
        """A transaction; ``alone``: without another such at the same time."""
        with _told(self.name, _FILE if self._sqlite else _SERVER), self._engine.begin() as connection:
            if self._sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
            elif alone:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_APPLICATION)))
            yield connection

    def _check(self, connection: sa.Connection, create: bool) -> None:
        """Find this version's schema, or make it where nothing is; and find that it may be written to."""
        tables = sa.inspect(connection).get_table_names()
        if _store.name not in tables:
            if tables and not _are_optunas(tables):
                raise InputError(_FOREIGN.format(self.name))
            if not create:
                raise AbsentError(_ABSENT.format(self.name))
            if self._sqlite:
                _mark(connection)
            _create(connection)
        _check_version(self.name, connection.scalar(sa.select(_store.c.version)))
        connection.execute(sa.update(_runs).where(sa.false()).values(attempts=0))

    def _now(self, connection: sa.Connection) -> float:
        if self._clock:
            return self._clock()
        if self._sqlite:
            return time.time()
        return float(connection.scalar(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))) or 0)

    def _among(self, fingerprints: Collection[str] | None) -> sa.ColumnElement[bool]:
        """The condition that a run is one of these: one parameter, however many they are."""
        if fingerprints is None:
            return sa.true()
        unpack = sa.func.json_each if self._sqlite else sa.func.json_array_elements_text
        listed = unpack(sa.literal(list(fingerprints), _json)).table_valued("value")
        return _runs.c.fingerprint.in_(sa.select(listed.c.value))

    def _read(
        self, connection: sa.Connection, condition: sa.ColumnElement[bool], now: float, history: bool = False
    ) -> list[Run]:
        names = [name for name in Run.__dataclass_fields__ if name != "history" or history]
        columns = [_status(now).label(name) if name == "status" else _runs.c[name] for name in names]
        query = sa.select(*columns).where(condition).order_by(_runs.c.number, _runs.c.fingerprint)
        try:
            runs = [Run(**row) for row in connection.execute(query).mappings()]
        except (ValueError, TypeError, RecursionError) as error:  # no JSON where JSON should be
            raise InputError(_DAMAGED.format(self.name, "a run cannot be read")) from error
        for run in runs:
            wrong = next((name for name in names if not _is_possible(name, getattr(run, name))), None)
            if run.status == "done" and run.result is None:
                wrong = "result"
            if wrong is not None:
                raise self.damaged(run, wrong)
        return runs

    def _change(self, connection: sa.Connection, owner: str, fingerprint: str, values: Json) -> bool:
        """Change a run if ``owner`` holds it."""
        held = (_runs.c.fingerprint == fingerprint, _runs.c.owner == owner, _runs.c.status == "running")
        return connection.execute(sa.update(_runs).where(*held).values(values)).rowcount == 1

    def _end(self, owner: str, fingerprint: str, status: str, values: Json) -> bool:
        with self._begin() as connection:
            ended = {"status": status, "lease": None, "finished": self._now(connection)}
            return self._change(connection, owner, fingerprint, {**values, **ended})

    def _set_waiting(self, condition: sa.ColumnElement[bool], fingerprints: Collection[str] | None) -> int:
        cleared = {"owner": None, "lease": None, "progress": None, "error": None, "finished": None}
        with self._begin() as connection:
            change = sa.update(_runs).where(condition, self._among(fingerprints))
            return connection.execute(change.values(status="waiting", **cleared)).rowcount


_none = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("fingerprint", "status"), (str,)),
    **dict.fromkeys(("owner", "error"), (str, _none)),
    **dict.fromkeys(("progress", "result", "environment"), (dict, _none)),
    **dict.fromkeys(("lease", "started", "finished"), (int, float, _none)),
    "config": (dict,),
    "attempts": (int,),
    "created": (int, float),
    "history": (list, _none),
}


def _is_possible(column: str, value: object) -> bool:
    """Whether a study can have written this value into this column."""
    if not isinstance(value, _TYPES[column]) or (isinstance(value, float) and not math.isfinite(value)):
        return False
    if column == "status":
        return value in STATUSES
    return not isinstance(value, list) or all(isinstance(record, dict) for record in value)


def _is_waiting(now: float) -> sa.ColumnElement[bool]:
    return sa.or_(
        _runs.c.status == "waiting", sa.and_(_runs.c.status == "running", sa.func.coalesce(_runs.c.lease, 0.0) < now)
    )


def _status(now: float) -> sa.ColumnElement[str]:
    """The status, where a run whose lease has expired is waiting again."""
    return sa.case((_is_waiting(now), "waiting"), else_=_runs.c.status)


# --- Opening --------------------------------------------------------------------------------------------------

_ABSENT = "There is no study in {}; name a store that a study has used."
_FOREIGN = "{} holds the data of another program; name a store of laddernet, or a new one."
_DAMAGED = "The store {} is damaged ({}); put a copy of it in its place, or name a new one."
_FILE = "name a store of laddernet or a new file, where file and folder may be written to"
_SERVER = "check that the server runs, the address, and what the user is allowed to do"

# JSON has no NaN, and PostgreSQL would refuse it.
_create_engine = partial(sa.create_engine, json_serializer=partial(json.dumps, allow_nan=False))


def _url(text: str) -> sa.URL:
    """The address, without naming in an error what may be a password."""
    example = "write it as postgresql://user:password@host/database, with special characters as %40 for @"
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise InputError(f"The address of the store cannot be understood; {example}.") from None
    if url.get_backend_name() not in ("postgresql", "postgres", "sqlite"):
        raise InputError(f"A store cannot be at {url.get_backend_name()}://; name a file, or a postgresql:// address.")
    if "@" in (url.host or ""):
        raise InputError(f"The address of the store has more than one @; {example}.")
    return url


def has_no_password(where: str) -> bool:
    """Whether an address may be shown and kept.

    >>> has_no_password("study.db"), has_no_password("postgresql://me:secret@host/studies")
    (True, False)
    """
    return shown(where) == where


def without_passwords(command: Sequence[str], store: str | None) -> list[str]:
    """A command as it may be kept in a file; ``store`` is the address that it names, however it does.

    >>> without_passwords(["laddernet", "study", "--store=postgresql://me:a/b@host/db"], "postgresql://me:a/b@host/db")
    ['laddernet', 'study', '--store=postgresql://…@host/db']
    """
    return [shown(part.replace(store, shown(store)) if store else part) for part in command]


def _open_server(url: sa.URL) -> sa.Engine:
    url = url.set(drivername="postgresql+psycopg", query={"connect_timeout": "10", **url.query})
    try:
        return _create_engine(url, pool_pre_ping=True)
    except ImportError as error:
        advice = "install it with pip install 'laddernet[postgres]'"
        raise InputError(f"A store in PostgreSQL needs a driver that is missing ({error}); {advice}.") from error


def _open_file(path: Path, create: bool) -> sa.Engine:
    with writing(path):
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file in it.")
        if not path.exists():
            if not create:
                raise AbsentError(_ABSENT.format(path))
            _create_file(path)
    # Immutable: nothing is written, not even what another program's crash left to be put right. Through SQLite, for a
    # process that opens and closes the file by itself loses all locks that it has on it.
    with _told(path, _FILE), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as file:
        pragmas = ("application_id", "user_version")
        application, version = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas)
        if application != _APPLICATION:
            tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
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
    """Make an empty store beside ``path`` and move it there whole, unless another process was faster."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.touch()
        engine = sa.create_engine(sa.URL.create("sqlite", database=str(temporary)), poolclass=sa.NullPool)
        with _told(path, _FILE), engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            _mark(connection)
            _create(connection)
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{temporary}{end}").unlink(missing_ok=True)


def _mark(connection: sa.Connection) -> None:
    connection.exec_driver_sql(f"PRAGMA application_id={_APPLICATION}")
    connection.exec_driver_sql(f"PRAGMA user_version={_VERSION}")


def _are_optunas(tables: Collection[str]) -> bool:
    """Whether a database holds Optuna's tables and no others: searches may be in it before any run.

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
        raise InputError(_DAMAGED.format(name, "its version"))
    if version > _VERSION:
        advice = "use that one, or name another store"
        raise InputError(f"{name} was made by a newer laddernet (store version {version}, not {_VERSION}); {advice}.")


@contextmanager
def _told(name: object, advice: str) -> Iterator[None]:
    """What the database refuses inside the block becomes an `InputError` that names the store and the reason."""
    try:
        yield
    # SQLite's own messages may quote damaged text; and not every text can be the name of a host.
    except (DBAPIError, sqlite3.Error, UnicodeError) as error:
        reason = shown_all(str(error.orig if isinstance(error, DBAPIError) else error).partition("\n")[0])
        raise InputError(f"Cannot use the store {name} ({reason}); {advice}.") from error
