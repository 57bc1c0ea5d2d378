"""A real PostgreSQL server for tests, as fixtures that conftest.py makes known."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tools import need


@pytest.fixture(scope="session")
def server() -> Iterator[sa.URL]:
    """A PostgreSQL server in a temporary folder, reached by a socket there, so that many may run side by side."""
    programs: Path = need("postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: a socket's path has at most 107 bytes

    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # as whom the server refuses to run; the package has made it a user of its own
        user = pwd.getpwnam("postgres")
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        with (folder / "output").open("w") as output:  # not a pipe, which the server would keep open
            done = subprocess.run(command, cwd=folder, stdout=output, stderr=output, **as_user)
        assert done.returncode == 0, (folder / "output").read_text()

    try:
        call("initdb", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
        access = folder / "data" / "pg_hba.conf"
        access.write_text("local all with_password scram-sha-256\n" + access.read_text())
        options = f"-c fsync=off -c listen_addresses= -c unix_socket_directories={folder} -c shared_buffers=16MB"
        call("pg_ctl", "start", "-w", "-t", "300", "-l", str(folder / "log"), "-o", options)
        try:
            yield sa.URL.create("postgresql", "owner", database="postgres", query={"host": str(folder)})
        finally:
            call("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


numbers = count()


@pytest.fixture
def fresh_schema(server: sa.URL) -> sa.URL:
    name = f"test{next(numbers)}"
    execute(server, f"CREATE SCHEMA {name}")
    return server.update_query_dict({"options": f"-csearch_path={name}"})


def execute(url: sa.URL, *statements: str) -> None:
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()
