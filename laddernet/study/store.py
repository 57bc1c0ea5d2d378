"""The durable record of a study's runs: a SQLite file, or a PostgreSQL database that a team shares.

A run is identified by its fingerprint. It is waiting, running, done or failed, and moves between these in short
transactions, so that a process may be killed at any moment. A driver that claims a run holds it on a lease, which
heartbeats extend. When the lease has expired the run counts as waiting again, and another driver may claim it. Only the
holder of a run can record its end, so it is recorded once.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from laddernet.errors import InputError
from laddernet.files import locked
from laddernet.study import database
from laddernet.study.database import DAMAGED
from laddernet.study.database import runs as _runs

STATUSES = ("waiting", "running", "done", "failed")

Json = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run as the store records it. Times are in seconds since 1970, UTC."""

    fingerprint: str
    config: Json
    status: str
    owner: str | None  # the driver that holds it, or ended it
    lease: float | None  # the time at which the lease expires
    attempts: int  # the number of times it was claimed
    progress: Json | None
    error: str | None
    result: Json | None
    environment: Json | None
    created: float
    started: float | None
    finished: float | None
    history: list[Json] | None = None  # read only on request


class Store:
    """The runs of a study. Open it with :meth:`open`; threads may share it.

    Each process opens its own store. A forked process must not use the store of its parent.

    >>> import tempfile
    >>> store = Store.open(f"{tempfile.mkdtemp()}/study.db")
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
        self.name = name  # without a password, for messages
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
        """Open a store; create it if there is none.

        Parameters
        ----------
        where
            A file, or a ``postgresql://`` address.
        create
            Whether a store that does not exist is created. If not, `AbsentError` is raised.
        lease
            Seconds that a run is held without a heartbeat.
        clock
            Replaces the clock that measures leases: the server's with PostgreSQL, this machine's with SQLite.
        """
        engine, name = database.open_database(where, create)
        store = cls(engine, name, lease, clock)
        try:
            with store._begin(alone=True) as connection:
                if not database.check_schema(connection, name, create):
                    connection.rollback()  # SQLite's commit would write to the header of a damaged file
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Close all connections. The next use of the store opens new ones."""
        self._engine.dispose()

    def add(self, configs: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Add runs, given by fingerprint; return the fingerprints of those that were not in the store."""
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

        A run is given by its ``config``, ``result``, ``history`` and ``environment``. A run that is done here does not
        change. A run that a driver holds becomes done, and the driver can no longer record its end.
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
        """Claim up to ``limit`` waiting runs, of these or of all, in the order in which they were added.

        Each process needs an ``owner`` name of its own.
        """
        with self._begin() as connection:
            now = self._now(connection)
            # Rows that another driver is claiming are skipped. SQLite has one writer, and no such clause.
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
        """Extend the leases of these runs and record their progress, where it is not None.

        Return the fingerprints of the runs that ``owner`` no longer holds.
        """
        with self._begin() as connection:
            lease = self._now(connection) + self._lease
            lost = []
            for fingerprint, value in sorted(progress.items()):  # one order for all, which prevents deadlocks
                values = {"lease": lease} if value is None else {"lease": lease, "progress": dict(value)}
                if not self._change(connection, owner, fingerprint, values):
                    lost.append(fingerprint)
        return lost

    def finish(
        self, owner: str, fingerprint: str, result: Json, history: Sequence[Mapping[str, Any]], environment: Json
    ) -> bool:
        """Record the result of a run; return False and change nothing if ``owner`` no longer holds it."""
        values = {"result": result, "history": list(history), "environment": environment}
        return self._end(owner, fingerprint, "done", values)

    def fail(self, owner: str, fingerprint: str, error: str) -> bool:
        """Record why a run failed; return False and change nothing if ``owner`` no longer holds it."""
        # PostgreSQL's text cannot contain zero bytes and surrogates.
        plain = error.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
        return self._end(owner, fingerprint, "failed", {"error": plain})

    def release(self, owner: str, fingerprints: Collection[str] | None = None) -> int:
        """Make these runs, or all, that ``owner`` holds waiting again; return their number."""
        held = sa.and_(_runs.c.status == "running", _runs.c.owner == owner)
        return self._set_waiting(held, fingerprints)

    def retry_failed(self, fingerprints: Collection[str] | None = None) -> int:
        """Make these failed runs, or all, waiting again; return their number."""
        return self._set_waiting(_runs.c.status == "failed", fingerprints)

    def runs(
        self, fingerprints: Collection[str] | None = None, status: str | None = None, *, history: bool = False
    ) -> list[Run]:
        """Return these runs, or all, in the order in which they were added; with learning curves only on request."""
        with self._begin(write=False) as connection:
            now = self._now(connection)
            condition = self._among(fingerprints)
            if status is not None:
                condition = sa.and_(condition, _status(now) == status)
            return self._read(connection, condition, now, history)

    def counts(self, fingerprints: Collection[str] | None = None) -> dict[str, int]:
        """Return the number of these runs, or of all, in each status."""
        with self._begin(write=False) as connection:
            status = _status(self._now(connection)).label("status")
            # Grouped by position: for PostgreSQL, two equal expressions with parameters are not the same.
            query = sa.select(status, sa.func.count()).where(self._among(fingerprints)).group_by(sa.text("1"))
            found = {row[0]: row[1] for row in connection.execute(query)}
        if found.keys() - set(STATUSES):
            raise InputError(DAMAGED.format(self.name, "the status of a run"))
        return {status: found.get(status, 0) for status in STATUSES}

    def damaged(self, run: Run, what: str) -> InputError:
        """Return the error for a field ``what`` of a run that a study cannot have written."""
        return InputError(DAMAGED.format(self.name, f"the {what} of run {str(run.fingerprint)[:13]!r}"))

    @property
    def url(self) -> sa.URL:
        """The database's address with its password, for Optuna, whose tables are in the same database."""
        return self._engine.url

    def has_table(self, name: str) -> bool:
        """Return whether the database has a table of this name, of laddernet or another program."""
        with self._begin(write=False) as connection:
            return sa.inspect(connection).has_table(name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of blocks like this one; the store itself stays usable."""
        if self._sqlite:
            with locked(f"{self._engine.url.database}.lock", busy=f"Another process is using {self.name}."):
                yield
        else:
            with database.explained(self.name, self._sqlite), self._engine.begin() as connection:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(database.APPLICATION + 1)))
                yield

    @contextmanager
    def _begin(self, *, write: bool = True, alone: bool = False) -> Iterator[sa.Connection]:
        """Begin a transaction; with ``alone``, not at the same time as another such transaction."""
        with database.explained(self.name, self._sqlite), self._engine.begin() as connection:
            if self._sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
            elif alone:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(database.APPLICATION)))
            yield connection

    def _now(self, connection: sa.Connection) -> float:
        if self._clock:
            return self._clock()
        if self._sqlite:
            return time.time()
        return float(connection.scalar(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))) or 0)

    def _among(self, fingerprints: Collection[str] | None) -> sa.ColumnElement[bool]:
        """Return the condition that a run is one of these, as one parameter for any number of them."""
        if fingerprints is None:
            return sa.true()
        unpack = sa.func.json_each if self._sqlite else sa.func.json_array_elements_text
        listed = unpack(sa.literal(list(fingerprints), database.JSON)).table_valued("value")
        return _runs.c.fingerprint.in_(sa.select(listed.c.value))

    def _read(
        self, connection: sa.Connection, condition: sa.ColumnElement[bool], now: float, history: bool = False
    ) -> list[Run]:
        names = [name for name in Run.__dataclass_fields__ if name != "history" or history]
        columns = [_status(now).label(name) if name == "status" else _runs.c[name] for name in names]
        query = sa.select(*columns).where(condition).order_by(_runs.c.number, _runs.c.fingerprint)
        try:
            runs = [Run(**row) for row in connection.execute(query).mappings()]
        except (ValueError, TypeError, RecursionError) as error:  # invalid JSON
            raise InputError(DAMAGED.format(self.name, "a run cannot be read")) from error
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
    """Return whether a study can have written this value into this column."""
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
    """Return the status of a run, which is waiting if its lease has expired."""
    return sa.case((_is_waiting(now), "waiting"), else_=_runs.c.status)
