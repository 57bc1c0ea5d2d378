"""A worker: how it reports the end of a run."""

import errno
import json
import shutil
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import pytest
from studies import tiny

from laddernet.files import writing
from laddernet.study.worker import perform


@pytest.mark.parametrize("is_explained", [False, True])
@pytest.mark.parametrize("error", [MemoryError("no memory"), OSError(errno.ENOSPC, "No space left on device")])
def test_a_run_that_the_machine_refuses_is_lost_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_explained: bool
) -> None:
    monkeypatch.setattr("laddernet.study.worker._PAUSE", 0.0)

    def refuse(record: object) -> None:
        with writing(tmp_path / "full") if is_explained else nullcontext():
            raise error

    config = next(iter(tiny().values()))
    task = {"config": asdict(config), "folder": str(tmp_path / "r"), "command": ["x"], "checkpoint_every": 60.0}
    assert perform(task, refuse)["event"] == "lost"


def test_a_run_whose_folder_is_removed_is_lost_not_done(tmp_path: Path) -> None:
    config = next(iter(tiny().values()))
    folder = tmp_path / "r"
    task = {"config": asdict(config), "folder": str(folder), "command": ["x"], "checkpoint_every": 60.0}
    task = json.loads(json.dumps(task))
    lost = perform(task, lambda record: shutil.rmtree(folder))
    assert lost["event"] == "lost"
    assert lost["error"].startswith(f"{folder} was removed")
    assert not folder.exists()
    done = perform(task, lambda record: None)
    assert done["event"] == "done"
    assert [record["epoch"] for record in done["history"]] == [1, 2]
