"""What is not a store, or cannot be one, is refused in one sentence and left as it is."""

import io
import os
import pwd
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres import execute, numbers
from rich.console import Console
from stores import address, finish, names
from support import contents, tiny_config
from test_files import files_at_most

from laddernet.errors import InputError
from laddernet.report.page import PageData, page
from laddernet.report.status import Status
from laddernet.study.driver import _release_dead
from laddernet.study.store import Run, Store


def refused(where: str | Path, **options: Any) -> str:
    """The sentence with which a store is not opened."""
    with pytest.raises(InputError) as error:
        Store.open(where, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE runs (x)")


def database_after_a_crash(path: Path) -> None:
    """Of another program, in WAL mode, with data that is still to be moved from the log into the file."""
    original = path.with_name("original")
    with closing(sqlite3.connect(original)) as file:
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("CREATE TABLE runs (x)")
        for end in ("", "-wal"):
            shutil.copy(f"{original}{end}", f"{path}{end}")


def newer_store(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version=99")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("hello"), "file is not a database"),
        (lambda path: path.write_bytes(os.urandom(5000)), "file is not a database"),
        (Path.touch, "of another program"),
        (foreign_database, "of another program"),
        (database_after_a_crash, "of another program"),
        (newer_store, "newer laddernet"),
        (Path.mkdir, "is a folder"),
    ],
)
def test_what_is_not_a_store_of_this_version_is_refused_and_left_as_it_is(folder: Path, make: Any, reason: str) -> None:
    path = folder / "study.db"
    make(path)
    before = contents(folder)
    sentence = refused(path)
    assert str(path) in sentence
    assert reason in sentence
    assert contents(folder) == before


def test_a_damaged_store_is_refused(folder: Path) -> None:
    path = folder / "study.db"
    with closing(Store.open(path)) as store:
        store.add({str(i): {} for i in range(100)})
    os.truncate(path, 5000)
    assert "malformed" in refused(path)


def test_a_store_that_is_cut_off_is_left_as_it_is_by_what_refuses_it(folder: Path) -> None:
    path = folder / "study.db"
    with closing(Store.open(path)) as store:
        store.add({f"{i:064}": {"model": "x" * 400} for i in range(200)})
    with path.open("r+b") as file:  # the header has neither its counter nor its number of pages: the end is found late
        file.truncate(path.stat().st_size - 4200)
        file.seek(24)
        file.write(bytes(8))
    before = path.read_bytes()
    with pytest.raises(InputError, match="malformed"), closing(Store.open(path)) as store:
        store.runs()
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def used() -> dict[str, bytes]:
    """The files of a store with runs in every state, by the ends of their names."""
    with tempfile.TemporaryDirectory() as folder, closing(Store.open(Path(folder) / "study.db")) as store:
        store.add({f"f{seed}": {"model": "vanilla", "seed": seed} for seed in range(30)})
        for run in store.claim("me", limit=20):
            if run.config["seed"] < 12:
                finish(store, "me", run.fingerprint)
            elif run.config["seed"] < 16:
                store.fail("me", run.fingerprint, "In epoch 3, cost became nan.")
            else:
                store.heartbeat("me", {run.fingerprint: {"epoch": 3, "epochs": 10, "test_error": 2.5}})
        return {path.name[len("study.db") :]: path.read_bytes() for path in Path(folder).glob("study.db*")}


def use(path: Path) -> None:
    """All that a driver, `status` and `report` do with a store, each of which may be refused in one sentence."""
    configs = {f"f{seed}": replace(tiny_config(), seed=seed) for seed in range(30)}
    uses: list[Callable[[Store], Any]] = [
        lambda store: Console(file=io.StringIO()).print(Status.of(store, configs, history=True).shown(slots=2)),
        lambda store: page(PageData("t", "digits", "", "", Status.of(store, configs, history=True).table())),
        lambda store: _release_dead(store),
        lambda store: store.add({"new": {}}),
        lambda store: store.claim("you", list(configs), limit=3),
        lambda store: store.heartbeat("me", {"f17": {"epoch": 4}}),
        lambda store: finish(store, "me", "f17"),
        lambda store: store.retry_failed(),
        lambda store: store.counts(),
        lambda store: store.release("me"),
    ]
    refusals: list[InputError] = []
    try:
        store = Store.open(path, create=False)
    except InputError as error:
        refusals.append(error)
    else:
        for one in uses:
            try:
                one(store)
            except InputError as error:
                refusals.append(error)
        store.close()
    for error in refusals:
        assert "\n" not in str(error)
        assert str(path) in str(error)


def test_damage_to_a_stores_file_is_one_sentence_or_harmless(folder: Path, used: dict[str, bytes]) -> None:
    rng = random.Random(0)
    for number in range(20):
        path = folder / f"{number}.db"
        for end, content in used.items():
            damaged = bytearray(content)
            for _ in range(rng.choice([1, 10, 100])):
                place = rng.randrange(len(damaged))
                damaged[place : place + 4] = rng.randbytes(rng.choice([1, 4]))
            Path(f"{path}{end}").write_bytes(damaged[: rng.choice([None, None, rng.randrange(len(damaged))])])
        use(path)


VALUES = [
    *(None, "", "x", "null", "[]", "{}", "[1]", '{"epoch": "x"}', '{"epochs": 0, "epoch": 1}', '{"test_error": "x"}'),
    *('{"test_error": NaN}', '[{"epoch": null}]', "[[]]", "[" * 100_000, b"\xff\xfe", 10**18, -1, 1e308, float("inf")),
]


def test_a_wrong_value_in_a_store_is_one_sentence_or_harmless(folder: Path, used: dict[str, bytes]) -> None:
    every = [(column, value) for column in sorted(Run.__dataclass_fields__) for value in VALUES]
    for number, (column, value) in enumerate(random.Random(0).sample(every, 30)):
        path = folder / f"{number}.db"
        for end, content in used.items():
            Path(f"{path}{end}").write_bytes(content)
        with closing(sqlite3.connect(path)) as file, suppress(sqlite3.IntegrityError):
            file.execute(f"UPDATE laddernet_runs SET {column} = ? WHERE fingerprint IN ('f1', 'f13', 'f17')", (value,))
            file.commit()
        use(path)


def test_a_database_of_another_program_in_postgresql_is_refused_and_left_as_it_is(fresh_schema: sa.URL) -> None:
    execute(fresh_schema, "CREATE TABLE runs (x int)")
    assert "of another program" in refused(address(fresh_schema))
    execute(fresh_schema, "CREATE TABLE laddernet_runs (x int)")  # would fail if it were there


def test_a_newer_store_in_postgresql_is_refused(fresh_schema: sa.URL) -> None:
    Store.open(address(fresh_schema)).close()
    execute(fresh_schema, "UPDATE laddernet_store SET version = 99")
    assert "newer laddernet (store version 99, not 1)" in refused(address(fresh_schema))


def test_a_store_that_must_be_there_is_not_made(where: str, folder: Path) -> None:
    assert "There is no study in" in refused(where, create=False)
    assert not list(folder.iterdir())
    assert "There is no study in" in refused(where, create=False)


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    assert str(folder / "absent" / "study.db") in refused(folder / "absent" / "study.db")


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user whom permissions bind, which they do not do to root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize(("mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555), (0o000, 0o777)])
def test_a_read_only_store_is_refused_and_left_as_it_is(folder: Path, mode: int, folder_mode: int) -> None:
    path = folder / "study.db"
    with closing(Store.open(path)) as store:
        store.add({"f": {}})
    before = path.read_bytes()
    path.chmod(mode)
    folder.chmod(folder_mode)
    with without_privileges():
        assert str(path) in refused(path)
    folder.chmod(0o700)
    path.chmod(0o600)
    assert path.read_bytes() == before


def test_a_store_in_a_folder_that_may_not_be_written_to_is_refused(folder: Path) -> None:
    folder.chmod(0o555)
    with without_privileges():
        assert "Permission denied" in refused(folder / "study.db")
    folder.chmod(0o000)
    with without_privileges():
        assert "Permission denied" in refused(folder / "study.db")
    folder.chmod(0o700)
    assert not list(folder.iterdir())


def test_a_full_disk_is_told_and_takes_nothing_away(folder: Path) -> None:
    with files_at_most(5000):
        assert str(folder / "study.db") in refused(folder / "study.db")
    assert not list(folder.iterdir())
    with closing(Store.open(folder / "study.db")) as store:
        store.add({"f": {}})
        with files_at_most(100_000), pytest.raises(InputError, match="Cannot use the store"):
            store.add({str(i): {"text": "x" * 1000} for i in range(1000)})
        assert names(store.runs()) == "f"
        store.add({"g": {}})
        assert names(store.runs()) == "fg"


def test_a_postgresql_user_who_may_only_read_is_refused(fresh_schema: sa.URL) -> None:
    role = f"reader{next(numbers)}"
    execute(fresh_schema, f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA {schema_of(fresh_schema)} TO {role}")
    reader = address(fresh_schema.set(username=role))
    assert "permission denied" in refused(reader)
    Store.open(address(fresh_schema)).close()
    execute(fresh_schema, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema_of(fresh_schema)} TO {role}")
    assert "permission denied" in refused(reader)


def schema_of(url: sa.URL) -> str:
    return str(url.query["options"]).partition("=")[2]


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    sentence = refused("postgresql://me:secret@127.0.0.1:1/study?password=secret")
    assert "Connection refused" in sentence
    assert "Cannot use the store postgresql://…@127.0.0.1:1/study?… (" in sentence
    assert "secret" not in sentence


def test_a_server_that_refuses_the_user_or_has_no_such_database_says_so(server: sa.URL) -> None:
    execute(server, "CREATE ROLE with_password LOGIN PASSWORD 'right'")
    sentence = refused(address(server.set(username="with_password", password="secret")))
    assert "password authentication failed" in sentence
    assert "secret" not in sentence
    assert 'database "absent" does not exist' in refused(address(server.set(database="absent")))


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://me:secret@host:port/study",
        "postgresql://me:sec@secret@host/study",
        "mysql://me:secret@host/study",
        "://secret",
        "postgresql://me:secret@127.0.0.1:1/study?nonsense=secret",
        "postgresql://me:secret@h\x81\xa8/study",  # no name of a host can have these
        f"postgresql://me:secret@{'é' * 70}/study",  # nor have a part this long
    ],
)
def test_an_address_that_cannot_be_right_is_refused_without_the_password(where: str) -> None:
    assert "secret" not in refused(where)


def test_a_missing_driver_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "laddernet[postgres]" in refused("postgresql://host/study")


def test_a_file_may_also_be_named_by_address(folder: Path) -> None:
    Store.open(f"sqlite:///{folder}/study.db").close()
    assert [path.name for path in folder.iterdir()] == ["study.db"]


@pytest.mark.parametrize("name", ["a b.db", "50%25?mode=ro#x.db", "\N{SNOWMAN}.db", "file:x.db", ":memory:", "'.db"])
def test_a_file_may_have_any_name(folder: Path, name: str) -> None:
    with closing(Store.open(folder / name)) as store:
        store.add({"f": {}})
    with closing(Store.open(str(folder / name), create=False)) as store:
        assert names(store.runs()) == "f"
    assert [path.name for path in folder.iterdir()] == [name]
