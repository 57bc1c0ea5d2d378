"""A real Ray cluster of two nodes for tests, on this machine's loopback addresses, with token authentication on."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support import held, wait_for

RAY = str(Path(sys.executable).with_name("ray"))
QUICK = {  # Ray's own settings, so that tests need not wait for its patience
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "4",
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}


class Cluster:
    """Two nodes, each in a session of its own; what they leave is in one short folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # short: a socket's path has at most 107 bytes
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
        self.hold = folder / "hold"
        mine = {name: value for name, value in held(self.hold, after=5).items() if not name.startswith("RAY_")}
        self.hold.unlink()
        places = {"HOME": str(folder), "TMPDIR": str(folder)}
        self.environment = {**mine, **token, **QUICK, **places, "RAY_USAGE_STATS_ENABLED": "0"}
        (folder / "token").write_text(secrets.token_hex(32))
        self.address = ""
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start the node ``head``, or another that joins it, without waiting."""
        ip = {"head": "127.0.0.2", "other": "127.0.0.3"}[name]
        options = (
            ["--head", "--port=0", "--include-dashboard=false", "--no-monitor"]
            if name == "head"
            else ["--address", self.address]
        )
        small = [
            "--num-cpus=1",
            "--object-store-memory=80000000",
            "--include-log-monitor=false",
            "--disable-usage-stats",
        ]
        command = [
            RAY,
            "start",
            *options,
            *small,
            "--node-ip-address",
            ip,
            "--temp-dir",
            str(self.folder / name),
            "--block",
        ]
        with (self.folder / f"{name}.log").open("w") as log:
            self.nodes[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait_for_head(self) -> None:
        found = self.folder / "head" / "ray_current_cluster"
        wait_for(lambda: found.exists() and found.read_text(), self.nodes["head"].poll)
        self.address = found.read_text()

    def processes(self, name: str) -> list[int]:
        """All processes of a node: they share its session."""
        return [
            pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _session(pid) == self.nodes[name].pid
        ]

    def workers(self, name: str) -> list[int]:
        return [pid for pid in self.processes(name) if b"RayWorker" in _command(pid)]

    def kill(self, name: str) -> None:
        """As if the machine had gone down."""
        for pid in self.processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.nodes[name].wait()


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With the head running, and the other node about to join."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    made = Cluster(folder)
    try:
        made.start("head")
        made.wait_for_head()
        made.start("other")
        yield made
    finally:
        for name in made.nodes:
            made.kill(name)
        shutil.rmtree(folder)
