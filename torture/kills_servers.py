"""The PostgreSQL servers and Ray clusters of the campaigns."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torture.common import ROOT

RAY_PATIENCE = 8.0  # seconds after which Ray counts a node as dead, with the settings of ray_cluster


def postgres_programs() -> Path | None:
    on_path = shutil.which("initdb")
    found = [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class Postgres:
    """A PostgreSQL server for the campaigns, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        programs = postgres_programs()
        assert programs is not None
        self._programs, self._folder = programs, folder
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("postgres")
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)
        self.url = f"postgresql://owner@/postgres?host={folder}"
        self._call("initdb", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions")
        self.start()

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        with (self._folder / "output").open("w") as output:  # a pipe would stay open in the server
            subprocess.run(command, cwd=self._folder, stdout=output, stderr=output, check=True, **self._as)

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c shared_buffers=16MB"
        for attempt in range(20):
            try:
                self._call("pg_ctl", "start", "-w", "-t", "120", "-l", str(self._folder / "log"), "-o", options)
                return
            except subprocess.CalledProcessError:  # processes of the killed server still hold its shared memory
                if attempt == 19:
                    raise
                time.sleep(0.5)

    @property
    def has_ended(self) -> bool:
        """Return whether the server has ended by itself: then it removes the file with its process id."""
        return not self._pid_file.exists()

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text().split()[0])

    @property
    def _pid_file(self) -> Path:
        return self._folder / "data" / "postmaster.pid"

    def stop(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self._call("pg_ctl", "stop", "-m", "immediate")


@contextmanager
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: a socket's path has at most 107 bytes
    try:
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ray_cluster(settings: dict[str, str]) -> Iterator[Any]:
    """Start the cluster of two nodes that the tests use."""
    sys.path.insert(0, str(ROOT / "tests"))
    from ray_cluster import Cluster

    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    cluster = Cluster(folder)
    cluster.environment |= {"RAY_health_check_timeout_ms": "1500", "RAY_health_check_failure_threshold": "3"}
    # Compiled programs must be the same everywhere.
    cluster.environment |= {name: settings[name] for name in settings if name.startswith(("XLA_", "JAX_", "OPENBLAS_"))}
    cluster.environment |= {name: settings[name] for name in ("PYTHONPATH", "LADDERNET_CACHE")}
    try:
        cluster.start("head")
        cluster.wait_for_head()
        cluster.start("other")
        yield cluster
    finally:
        for name in list(cluster.nodes):
            cluster.kill(name)
        shutil.rmtree(folder, ignore_errors=True)
