"""Python processes that exchange lines of JSON with the process that started them, so nothing is unpickled."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from laddernet.files import open_unlinked, writing


class Child:
    """A process that runs a Python module.

    A thread puts each line that the process writes into a queue, together with the child, and None at the end of its
    output. Every system can wait for a queue; Windows cannot wait for several pipes.
    """

    def __init__(
        self,
        module: list[str],
        log: Path,
        lines: "queue.SimpleQueue[tuple[Child, Any]]",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with writing(log), open_unlinked(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the driver, which then ends its children
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
            )
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def write(self, line: Mapping[str, Any]) -> None:
        """Send a line to the process."""
        assert self.process.stdin is not None
        with suppress(OSError):  # the process has ended, and None is or will be in the queue
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()

    def _read(self, lines: "queue.SimpleQueue[tuple[Child, Any]]") -> None:
        assert self.process.stdout is not None
        try:
            with self.process.stdout:
                for line in self.process.stdout:
                    if line.endswith(b"\n"):  # else the process was killed while it wrote the line
                        lines.put((self, json.loads(line)))
        finally:
            lines.put((self, None))

    def end(self, patience: float = 0.0) -> int:
        """Close the input of the process, kill it after ``patience`` seconds, and return its exit code."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:  # the system itself blocks it, as when a network disk does not respond
            return -signal.SIGTERM


def received(lines: "queue.SimpleQueue[tuple[Child, Any]]", timeout: float) -> list[tuple[Child, Any]]:
    """Return everything in the queue, after a wait of up to ``timeout`` seconds for the first line."""
    found = []
    with suppress(queue.Empty):
        found.append(lines.get(timeout=timeout))
        while True:
            found.append(lines.get_nowait())
    return found


def json_output() -> Callable[[Mapping[str, Any]], None]:
    """Return a function that writes lines of JSON to standard output, and redirect all other output to standard error.

    For a process that a `Child` has started: what libraries print must not come between the lines.
    """
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def write(line: Mapping[str, Any]) -> None:
        print(json.dumps(line), file=lines, flush=True)

    return write
