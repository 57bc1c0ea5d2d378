"""Fresh stores, in a file and in PostgreSQL."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from stores import Clock, address

from laddernet.study.store import Store


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where there is such a place: a busy disk takes seconds for each of SQLite's fsyncs."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a store may be made: a file, or an address."""
    if request.param == "sqlite":
        return str(folder / "study.db")
    return address(request.getfixturevalue("fresh_schema"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(where: str, clock: Clock) -> Iterator[Store]:
    """Three waiting runs, a lease of ten seconds, and a clock that stands still."""
    with closing(Store.open(where, lease=10, clock=clock)) as store:
        store.add({name: {"model": "vanilla", "seed": seed} for seed, name in enumerate("cab")})
        yield store
