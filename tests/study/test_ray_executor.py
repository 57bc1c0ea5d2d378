"""The executor for a Ray cluster, with a bridge that is replaced."""

import json
from pathlib import Path
from typing import Any

import pytest

from laddernet.errors import InputError
from laddernet.study.executors import Task
from laddernet.study.ray_executor import RayExecutor

DONE = {"event": "done", "result": {}, "history": [], "environment": {}}


class Bridge:
    """In the place of the process: it notes what it is told."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def write(self, line: Any) -> None:
        self.lines.append(json.loads(json.dumps(line)))


def test_a_stopped_task_of_a_cluster_says_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = Bridge()

    def connect(self: RayExecutor) -> None:
        self._bridge = bridge  # type: ignore[assignment]

    monkeypatch.setattr(RayExecutor, "_connect", connect)
    executor = RayExecutor(tmp_path)
    task = Task("f", {}, str(tmp_path / "runs" / "a"), ["x"])
    executor.start(0, task)
    executor.stop(0)
    executor.start(0, task)
    (first, stop, second) = bridge.lines
    assert stop == {"slot": 0, "stop": True}
    assert first["task"] == second["task"]
    for line in (first, second):
        executor._lines.put((bridge, {"slot": 0, "number": line["number"], "event": DONE}))  # type: ignore[arg-type]
    assert executor.events(0.01) == [(0, DONE)]


def test_the_address_in_the_environment_is_checked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.9:1")
    with pytest.raises(InputError, match=r"Cannot reach the Ray cluster at 127\.0\.0\.9:1 \("):
        RayExecutor(tmp_path / "s")
    assert not (tmp_path / "s").exists()
