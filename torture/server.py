"""Calls of the command line in forked processes: the imports, which take seconds, are made once (`torture.forks`)."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Fault:
    """The action of the shim at the n-th system call below a folder (see faults.c)."""

    folder: str
    number: int = 0
    action: str = "count"
    target: str = ""  # the folder that is deleted
    errno: int = 0
    onwards: bool = False  # all later calls fail too
    seconds: float = 0.0  # by which the clock jumps


@dataclass(frozen=True)
class Call:
    """A command and its conditions."""

    argv: Sequence[str]
    cwd: str
    stubs: bool = False  # stop before the training, and count the input as accepted
    inline: bool = False  # studies and searches train in the driver's process
    stdin: str | None = None  # a file
    seconds: float = 60.0
    memory: int | None = None  # bytes of address space beyond those of the server
    descriptors: int | None = None  # beyond the open ones
    fault: Fault | None = None


@dataclass(frozen=True)
class Ended:
    """The end of a call."""

    code: int = 0
    signal: int = 0
    hung: bool = False
    accepted: bool = False
    out: str = ""
    err: str = ""
    memory: int = 0  # bytes by which the process grew
    calls: int = 0  # system calls that the shim counted


class Accepted(BaseException):
    """Raised instead of training."""


class Server:
    """A fork server as a child process; one thread may use it at a time."""

    def __init__(self, environment: dict[str, str], log: Path, shim: Path | None = None) -> None:
        if shim is not None:
            environment = {**environment, "LD_PRELOAD": str(shim), "TORTURE_SHIM": str(shim)}
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "torture.forks"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
        self._log = log

    def call(self, calls: Sequence[Call]) -> Iterator[Ended]:
        """Perform calls one after another."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([asdict(call) for call in calls]).encode() + b"\n")
        self._process.stdin.flush()
        for _ in calls:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"The fork server has ended; {self._log} may say why.")
            yield Ended(**json.loads(line))

    def one(self, call: Call) -> Ended:
        (ended,) = self.call([call])
        return ended

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Pool:
    """Several servers that share the calls."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._idle = list(servers)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    @contextmanager
    def one(self) -> Iterator[Server]:
        server = self._idle.pop()
        try:
            yield server
        finally:
            self._idle.append(server)

    def map(self, function: Callable[[Server, Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Apply the function to each item, in as many threads as there are servers."""

        def perform(item: Any) -> Any:
            with self.one() as server:
                return function(server, item)

        with ThreadPoolExecutor(len(self._servers)) as pool:
            try:
                yield from pool.map(perform, items)
            finally:  # after Ctrl-C, wait only for running calls
                pool.shutdown(wait=False, cancel_futures=True)
