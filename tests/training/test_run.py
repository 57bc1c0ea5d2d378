import csv
import json
import os
import resource
import shlex
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import reference
from support import OPTIONS, Finished, Killed, contents, digits, laddernet, run_tiny, tiny_config, tiny_data
from test_files import files_at_most

from laddernet.errors import InputError, RemovedError
from laddernet.training.checkpoint import read_arrays
from laddernet.training.run import default_folder, load_run, metrics_csv

FILES = ["command.txt", "config.json", "environment.json", "metrics.csv", "result.json", "weights.safetensors"]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    run_tiny(folder)
    return contents(folder)


def assert_ended_as(undisturbed: dict[str, bytes], folder: Path) -> None:
    assert sorted(os.listdir(folder)) == [".lock", *FILES]
    for name in ("weights.safetensors", "metrics.csv", "config.json"):
        assert (folder / name).read_bytes() == undisturbed[name], name


# --- What the folder holds --------------------------------------------------------------------------------------


def test_a_finished_runs_folder_holds_its_six_files_and_no_checkpoints(finished: tuple[Path, Finished]) -> None:
    folder, _ = finished
    assert sorted(path.name for path in folder.iterdir() if path.name != ".lock") == FILES


def test_the_configuration_is_complete(finished: tuple[Path, Finished]) -> None:
    config = json.loads((finished[0] / "config.json").read_text())
    assert config == json.loads(json.dumps(vars(tiny_config())))


def test_the_command_repeats_the_run_bit_by_bit(finished: tuple[Path, Finished], tmp_path: Path) -> None:
    folder, _ = finished
    program, *arguments = shlex.split((folder / "command.txt").read_text())
    assert program == "laddernet"
    assert laddernet(*arguments, cwd=tmp_path).code == 0
    for name in ("weights.safetensors", "metrics.csv", "config.json", "command.txt"):
        assert (tmp_path / "run" / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_environment_names_the_machine_and_the_versions(finished: tuple[Path, Finished]) -> None:
    environment = json.loads((finished[0] / "environment.json").read_text())
    assert environment["packages"]["jax"] == jax.__version__
    assert environment["packages"]["numpy"] == np.__version__
    assert {"python", "platform", "processor", "cores", "devices"} <= environment.keys()
    assert isinstance(environment.pop("native"), bool)  # False without a compiler
    assert all(environment.values())


def test_the_metrics_have_a_row_for_each_epoch_and_a_column_for_each_quantity(finished: tuple[Path, Finished]) -> None:
    folder, _ = finished
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    assert [row["epoch"] for row in rows] == ["1", "2", "3", "4"]
    assert list(rows[0]) == [
        "epoch",
        "learning_rate",
        "cost",
        "cross_entropy",
        *(f"reconstruction_{l}" for l in range(4)),
        "validation_error",
    ]
    result = json.loads((folder / "result.json").read_text())
    assert {name: float(value) for name, value in rows[-1].items()} == {name: result[name] for name in rows[-1]}


def test_what_an_epoch_did_not_measure_is_empty_in_the_metrics() -> None:
    text = metrics_csv([{"epoch": 1, "cost": 0.5}, {"epoch": 2, "cost": 0.25, "validation_error": 3.0}])
    assert text == b"epoch,cost,validation_error\n1,0.5,\n2,0.25,3.0\n"


def test_the_weights_are_those_that_made_the_test_error(finished: tuple[Path, Finished]) -> None:
    folder, _ = finished
    arrays = read_arrays(folder / "weights.safetensors")
    encoder = [
        {name: arrays[f"ladder.encoder.{l}.{name}"].astype(float) for name in ("W", "gamma", "beta")} for l in range(3)
    ]
    x_train = tiny_data(tiny_config()).x_unlabelled
    predicted = reference.predict({"encoder": encoder}, digits().x_test, x_train).argmax(axis=1)
    result = json.loads((folder / "result.json").read_text())
    error = 100 * np.mean(predicted != digits().y_test)
    assert result["test_error"] == pytest.approx(error, abs=100 * 2 / 360)  # two rows may be too near to call
    mu = reference.clean_encoder({"encoder": encoder}, x_train)["mu"]
    np.testing.assert_allclose(arrays["statistics.mu.0"], mu[1], rtol=1e-4, atol=1e-5)


def test_a_finished_run_is_loaded_ready_to_predict(finished: tuple[Path, Finished]) -> None:
    folder, _ = finished
    config, loaded = load_run(folder)
    assert config == tiny_config()
    result = json.loads((folder / "result.json").read_text())
    assert loaded.error(digits().x_test, digits().y_test) == result["test_error"]


@pytest.mark.parametrize("damage", ["no weights", "other sizes", "weights cut short", "a setting less"])
def test_a_folder_that_does_not_hold_a_whole_finished_run_is_not_loaded(
    finished: tuple[Path, Finished], tmp_path: Path, damage: str
) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "run")
    weights, config = folder / "weights.safetensors", json.loads((folder / "config.json").read_text())
    if damage == "no weights":
        weights.unlink()
    elif damage == "weights cut short":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "other sizes":
        (folder / "config.json").write_text(json.dumps({**config, "hidden": [8, 5]}))
    else:
        del config["seed"]
        (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=str(folder)):
        load_run(folder)


def test_a_run_without_a_folder_given_has_one_that_no_other_configuration_has() -> None:
    folders = {default_folder(tiny_config(**change)) for change in ({}, {"seed": 1}, {"eta": 0.2}, {"labels": 50})}
    assert len(folders) == 4
    assert all(folder.parent == Path("runs") for folder in folders)


# --- Again ------------------------------------------------------------------------------------------------------


def test_the_same_command_again_prints_the_same_result_without_training(
    finished: tuple[Path, Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, done = finished
    before = contents(folder)
    monkeypatch.setattr("laddernet.training.run.train", None)
    again = laddernet("train", *OPTIONS, "--out", "run", "--json", cwd=folder.parent)
    assert again == done
    assert contents(folder) == before


def test_another_configuration_in_the_same_folder_is_refused_and_changes_nothing(
    finished: tuple[Path, Finished],
) -> None:
    folder, _ = finished
    before = contents(folder)
    done = laddernet("train", *OPTIONS, "--seed", "1", "--out", "run", cwd=folder.parent)
    assert done == (2, "", "laddernet: run holds another run (seed is 0, not 1); choose another --out.\n")
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_file_of_a_finished_run_is_refused_and_changes_nothing(
    finished: tuple[Path, Finished], tmp_path: Path, name: str, content: str
) -> None:
    shutil.copytree(finished[0], tmp_path / "run")
    (tmp_path / "run" / name).write_text(content)
    before = contents(tmp_path)
    done = laddernet("train", *OPTIONS, "--out", "run", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"laddernet: run/{name} is ")
    assert contents(tmp_path) == before


def test_a_folder_of_other_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    done = laddernet("train", *OPTIONS, "--out", "run", cwd=tmp_path)
    assert done == (2, "", "laddernet: run holds other files (thesis.tex); choose an empty folder for --out.\n")
    assert os.listdir(tmp_path / "run") == ["thesis.tex"]


# --- Where nothing can be written -------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = laddernet("train", *OPTIONS, "--out", "file/run", cwd=tmp_path)
    advice = "name a place that exists, may be written to and has space"
    assert done == (2, "", f"laddernet: Cannot write file/run (Not a directory); {advice}.\n")


def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path) -> None:
    with files_at_most(100):
        done = laddernet("train", *OPTIONS, "--out", "run", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("laddernet: Cannot write run/config.json (File too large); ")


def test_a_disk_that_fills_up_leaves_whole_checkpoints_to_resume_from(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))

    try:
        with pytest.raises(InputError, match=r"^Cannot write .*epoch-000003.safetensors \(File too large\)"):
            run_tiny(tmp_path, on_epoch=fill_up)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    epochs: list[int] = []
    run_tiny(tmp_path, on_epoch=lambda record: epochs.append(record["epoch"]), on_notice=pytest.fail)
    assert epochs == [3]
    assert_ended_as(undisturbed, tmp_path)


# --- Death ------------------------------------------------------------------------------------------------------


def test_a_run_that_dies_before_any_change_to_its_folder_resumes_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, bytes]
) -> None:
    changes, last = 0, 0

    def dying(method: Any) -> Any:
        def wrapped(self: Path, *args: Any, **kwargs: Any) -> Any:
            nonlocal changes
            reads = method.__name__ == "open" and args[:1] not in {("w",), ("xb",)}
            if self.is_relative_to(tmp_path) and not reads:
                changes += 1
                if changes >= last:  # and all after it: the dead do not tidy up
                    raise Killed
            return method(self, *args, **kwargs)

        return wrapped

    methods = {name: getattr(Path, name) for name in ("open", "replace", "unlink", "mkdir", "rmdir")}
    for last in count(1):
        folder, changes = tmp_path / str(last), 0
        with monkeypatch.context() as patch:
            for name, method in methods.items():
                patch.setattr(Path, name, dying(method))
            try:
                run_tiny(folder)
            except Killed:
                pass
            else:
                break
        run_tiny(folder, on_notice=pytest.fail)
        assert_ended_as(undisturbed, folder)
    assert last > 30


def test_a_run_whose_checkpoints_are_all_damaged_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        run_tiny(tmp_path, on_epoch=die)
    for path in (tmp_path / "checkpoints").glob("*.safetensors"):
        path.write_bytes(b"")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"^No checkpoint in .* can be used: .* Remove that folder to start anew.$"):
        run_tiny(tmp_path)
    after = contents(tmp_path)
    assert after == before


# --- A folder that is removed -----------------------------------------------------------------------------------


def remove_all(folder: Path) -> None:
    shutil.rmtree(folder)


def remove_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def remove_lock(folder: Path) -> None:
    (folder / ".lock").unlink()


@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("remove", [remove_all, remove_config, remove_lock])
def test_a_run_whose_folder_is_removed_stops_and_the_same_command_ends_the_same(
    tmp_path: Path, undisturbed: dict[str, bytes], remove: Any, epoch: int
) -> None:
    folder = tmp_path / "run"

    def removing(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            remove(folder)

    sentence = f"^{folder} was removed or replaced while its run was under way; give the same command to start it again"
    with pytest.raises(RemovedError, match=sentence):
        run_tiny(folder, on_epoch=removing)
    assert folder.exists() == (remove is not remove_all)
    assert not (folder / "result.json").exists()
    run_tiny(folder, on_notice=pytest.fail)
    assert_ended_as(undisturbed, folder)


def test_a_folder_removed_at_the_very_end_is_noticed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr("laddernet.training.run.checkpoint.remove", lambda checkpoints: remove_all(folder))
    with pytest.raises(RemovedError):
        run_tiny(folder)


def test_a_run_whose_folder_another_has_taken_leaves_it_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def taken(record: dict[str, Any]) -> None:
        if record["epoch"] == 1:
            shutil.rmtree(folder)
            folder.mkdir()
            for name in (".lock", "config.json", "metrics.csv"):
                (folder / name).write_text("another's")

    with pytest.raises(RemovedError):
        run_tiny(folder, on_epoch=taken)
    assert contents(folder) == {"config.json": b"another's", "metrics.csv": b"another's"}


def test_a_planted_lock_is_refused_and_what_it_points_to_is_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "thesis.tex")
    done = laddernet("train", *OPTIONS, "--out", "run", cwd=tmp_path)
    sentence = "run/.lock is a symbolic link where a lock file should be; remove it."
    assert done == (2, "", f"laddernet: {sentence}\n")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_run_folder_from_before_precision_was_a_setting_goes_on(tmp_path: Path) -> None:
    command = ("train", *OPTIONS, "--out", "run")
    first = laddernet(*command, cwd=tmp_path)
    file = tmp_path / "run" / "config.json"
    held = json.loads(file.read_text())
    del held["precision"]
    file.write_text(json.dumps(held))
    assert laddernet(*command, cwd=tmp_path) == first
    other = laddernet(*command, "--precision", "bfloat16", cwd=tmp_path)
    assert other.code == 2
    assert "precision is float32, not bfloat16" in other.err
