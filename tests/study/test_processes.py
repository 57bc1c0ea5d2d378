"""Processes that exchange lines of JSON."""

import os
import queue
from pathlib import Path
from typing import Any

from support import PATIENCE

from laddernet.study.processes import Child


def test_a_childs_output_that_breaks_off_is_not_taken_for_a_line(tmp_path: Path) -> None:
    messages: queue.SimpleQueue[tuple[Child, Any]] = queue.SimpleQueue()
    (tmp_path / "broken.py").write_text("print('{}', flush=True); print('{', end='', flush=True)")
    child = Child(["broken"], tmp_path / "log", messages, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert [messages.get(timeout=PATIENCE)[1] for _ in range(2)] == [{}, None]
    assert child.end(PATIENCE) == 0
