"""What the commands train, study and tune have in common."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import NO_UNITS, OPTIONS, contents, laddernet, without_units

from laddernet.data import load
from laddernet.study.plan import PRESETS, read_plan
from laddernet.training.settings import RECIPES
from laddernet.training.tuned import read
from laddernet.tune.samplers import SAMPLERS


@pytest.mark.process
@pytest.mark.parametrize("command", ["train", "study", "report", "tune"])
def test_help_of_the_papers_commands_loads_nothing_that_takes_long(command: str) -> None:
    program = """
import sys
from laddernet.cli.main import main
try:
    main()
finally:
    assert not {"jax", "sklearn", "pandas", "optuna", "sqlalchemy", "scipy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, command, "--help"], capture_output=True, check=True)


def test_help_names_the_recipes_presets_and_samplers_that_there_are(tmp_path: Path) -> None:
    for command, names in (
        ("train", [f"'{name}' ({recipe.epochs} epochs" for name, recipe in RECIPES.items()]),
        ("study", [f"A preset ({', '.join(PRESETS)})"]),
        ("tune", [f"{', '.join(SAMPLERS[:-1])} or {SAMPLERS[-1]}."]),
    ):
        shown = re.sub(r"[\s│]+", " ", laddernet(command, "--help", cwd=tmp_path).out)
        assert [name for name in names if name not in shown] == []


# --- A user's own data ----------------------------------------------------------------------------------------------

TINY = ("--labels", "9", "--hidden", "4", "--epochs", "2", "--recipe", "small")


def written(folder: Path, seed: int = 0) -> None:
    """Write the same rows as mine.npz and as mine.csv: three classes, sixty rows, ten of them without a label."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((60, 3)), np.arange(60) % 3
    x[:, 0] = (x[:, 0] + y) / 3
    x[0], x[1] = 0, 1  # so that the scaling of the table changes nothing
    part = np.array(["test" if row >= 40 else "train" for row in range(60)])
    np.savez(
        folder / "mine.npz",
        **{"x_train": x[:30], "y_train": y[:30], "x_unlabelled": x[30:40], "x_test": x[40:], "y_test": y[40:]},
    )
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(kind=y, part=part).astype({"kind": "Int64"})
    table.loc[30:39, "kind"] = pd.NA
    table.to_csv(folder / "mine.csv", index=False)


TABLE = ("--data", "mine.csv", "--target", "kind", "--split", "part")


def test_a_users_arrays_and_table_are_trained_on_and_are_the_same_run(tmp_path: Path) -> None:
    written(tmp_path)
    by_arrays = laddernet("train", "--data", "mine.npz", *TINY, "--json", cwd=tmp_path)
    by_table = laddernet("train", *TABLE, *TINY, "--json", cwd=tmp_path)
    assert (by_arrays.code, by_table.code) == (0, 0), by_arrays.err + by_table.err
    assert json.loads(by_arrays.out) == json.loads(by_table.out)  # the second reads the result of the first
    [folder] = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("mine-9-vanilla-seed0-")
    assert json.loads((folder / "config.json").read_text())["content"] == load(tmp_path / "mine.npz").content


def test_a_changed_file_is_another_run_and_its_folder_is_not_continued(tmp_path: Path) -> None:
    written(tmp_path)
    assert laddernet("train", "--data", "mine.npz", *TINY, "--out", "r", cwd=tmp_path).code == 0
    before = contents(tmp_path / "r")
    written(tmp_path, seed=1)
    sentence = "laddernet: r holds the run of another content of mine, which has changed since; choose another --out.\n"
    assert laddernet("train", "--data", "mine.npz", *TINY, "--out", "r", cwd=tmp_path) == (2, "", sentence)
    assert contents(tmp_path / "r") == before


@pytest.mark.process
def test_a_study_of_a_users_table_trains_in_other_processes_and_travels(tmp_path: Path) -> None:
    written(tmp_path)
    study = ("study", *TABLE, *TINY, "--models", "vanilla,linear", "--seeds", "1", "--jobs", "1", "--out", "s")
    done = laddernet(*study, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "mine: 2 models × 9 labels × 1 seeds = 2 runs in s" in done.out
    assert "Ladder Networks on mine" in (tmp_path / "s" / "report.html").read_text()
    [data] = (tmp_path / "s").glob("data-*.npz")
    assert read_plan(tmp_path / "s").data == data.name

    assert laddernet("study", "export", "s", "runs.jsonl", cwd=tmp_path).code == 0
    assert laddernet("study", "import", "runs.jsonl", "other", cwd=tmp_path).code == 0
    assert laddernet("report", "--html", "--out", "other", cwd=tmp_path).code == 0
    assert (tmp_path / "s" / "table.csv").read_bytes() == (tmp_path / "other" / "table.csv").read_bytes()
    assert "nothing left to run" in laddernet(*study, cwd=tmp_path).out

    data.unlink()
    notice = laddernet("report", "--html", "--out", "s", cwd=tmp_path).err
    assert notice.startswith("The page has no pictures of the networks: Cannot read s/data-")
    written(tmp_path, seed=1)
    again = laddernet(*study, cwd=tmp_path)
    assert "0 done; " in again.out
    assert (
        "2 finished runs leave the table: their cells are now computed with other settings, data or code" in again.err
    )


@pytest.mark.process
def test_a_search_on_a_users_data_finds_values_for_data_of_its_name_and_shape(tmp_path: Path) -> None:
    written(tmp_path)
    search = ("tune", "vanilla", "--data", "mine.npz", *TINY, "--trials", "1", "--draws", "1", "--jobs", "1")
    done = laddernet(*search, "--write", "mine.toml", cwd=tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "tune-mine").is_dir()
    assert read(tmp_path / "mine.toml").shape == (3, 3)
    study = ("study", "--data", "mine.npz", *TINY, "--seeds", "1", "--dry-run", "--tuned", "mine.toml")
    assert laddernet(*study, cwd=tmp_path).code == 0
    rng = np.random.default_rng(0)
    wider = {"x_train": rng.random((30, 4)), "x_test": rng.random((6, 4))}
    np.savez(tmp_path / "mine.npz", **wider, y_train=np.arange(30) % 3, y_test=np.arange(6) % 3)
    refused = laddernet(*study, cwd=tmp_path)
    sentence = (
        "laddernet: mine.toml holds values for mine with 3 columns and 3 classes, not with 4 columns and 3 classes"
    )
    assert (refused.code, refused.err.partition(";")[0]) == (2, sentence)


@pytest.mark.parametrize("command", [("train",), ("study", "--out", "s"), ("tune", "vanilla", "--out", "s")])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--data absent.npz", "Cannot read absent.npz (No such file or directory); name a file that exists and may be"),
        ("--data mine.npz --target kind", "--target is for a table, and mine.npz has its own training and test rows;"),
        (
            "--data digits --test-share 0.2",
            "--test-share is for a table, and digits has its own training and test rows;",
        ),
        ("--data mine.npz --test-share 0.2", "mine.npz has no array X with a row for each example; save it with"),
        ("--data mine.csv", "mine.csv must be divided into training and test rows; give either --test-share, as in"),
        ("--data mine.csv --split part", "--target is missing; name the column that holds the classes, perhaps"),
        (
            "--data mine.csv --target kind --test-share 2",
            "--test-share 2 makes 100 of the 50 labelled rows of mine.csv",
        ),
        ("--data part.npz", "part.npz has no array x_train and no y_train and no x_test and no y_test; save them with"),
        (
            "--data mine.npz --labels 31",
            "31 labels are more than the 30 training rows with a label; ask for at most 30.",
        ),
        ("--data mine.parquet", "mine.parquet is not a Parquet file; write it anew"),
    ],
)
def test_bad_data_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, command: tuple[str, ...], options: str, sentence: str
) -> None:
    written(tmp_path)
    np.savez(tmp_path / "part.npz", rows=np.zeros((3, 2)))
    (tmp_path / "mine.parquet").write_text("a,b\n1,2\n")
    before = contents(tmp_path)
    ended = laddernet(*command, *options.split(), cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"laddernet: {sentence}")
    assert ended.err.count("\n") == 1
    assert {name: content for name, content in contents(tmp_path).items() if not name.startswith("s/")} == before


def test_the_commands_pass_the_precision_on_and_say_when_it_is_no_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_units(tmp_path, monkeypatch)
    done = laddernet("train", *OPTIONS, "--precision", "bfloat16", "--out", "run", cwd=tmp_path)
    assert (done.code, done.err.splitlines()) == (0, [NO_UNITS])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["precision"] == "bfloat16"
    refused = laddernet("train", *OPTIONS, "--precision", "float16", "--out", "other", cwd=tmp_path)
    assert refused.code == 2
    assert "precision must be 'float32' or 'bfloat16', got 'float16'" in refused.err
    for command in (("study", "demo", "--dry-run"), ("tune", "vanilla", "--trials", "1")):
        done = laddernet(*command, "--precision", "float16", cwd=tmp_path)
        assert (done.code, "precision must be" in done.err) == (2, True)
