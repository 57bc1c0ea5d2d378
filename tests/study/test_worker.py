"""A worker: how it reports the end of a run."""

import errno
import json
import shutil
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import tiny

from laddernet.data import load
from laddernet.files import writing
from laddernet.study.worker import perform
from laddernet.training.settings import configure


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


def own_task(folder: Path, **arrays: np.ndarray) -> dict[str, Any]:
    """Make a file of data, and the task of a run that is configured with it."""
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 5)), np.arange(60) % 3
    held = {"x_train": x[:40], "y_train": y[:40], "x_test": x[40:], "y_test": y[40:]} | arrays
    np.savez(folder / "mine.npz", **held)
    config = configure(load(folder / "mine.npz"), labels=9, hidden=(4,), epochs=2)
    task = {"config": asdict(config), "folder": str(folder / "r"), "command": ["x"], "checkpoint_every": 60.0}
    return json.loads(json.dumps({**task, "data": str(folder / "mine.npz")}))


@pytest.mark.parametrize("test", [True, False])
def test_a_run_of_a_users_data_loads_it_from_its_file(tmp_path: Path, test: bool) -> None:
    done = perform(own_task(tmp_path) | {"test": test}, lambda record: None)
    assert done["event"] == "done"
    assert ("test_error" in done["result"]) is test


@pytest.mark.parametrize("test", [True, False])
def test_a_run_is_lost_while_its_data_is_not_that_of_its_configuration(tmp_path: Path, test: bool) -> None:
    task = own_task(tmp_path) | {"test": test}
    held = (tmp_path / "mine.npz").read_bytes()
    own_task(tmp_path, y_test=np.ones(20, int))
    refused = "mine.npz is not the data that this run was configured with"
    for change in (lambda path: None, lambda path: path.write_bytes(held[:500]), Path.unlink):
        change(tmp_path / "mine.npz")
        lost = perform(task, lambda record: None)
        assert lost["event"] == "lost"
        assert refused in lost["error"]
        assert lost["error"].endswith("restore it, or repeat the command, which makes new runs of changed data.")
        assert not (tmp_path / "r").exists()
    (tmp_path / "mine.npz").write_bytes(held)
    assert perform(task, lambda record: None)["event"] == "done"
