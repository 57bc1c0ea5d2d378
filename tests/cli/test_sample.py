"""The command `sample`: pictures and arrays of a run's folder, and bad input."""

import dataclasses
import json
import shutil
from pathlib import Path

import iris
import numpy as np
import pytest
import safetensors.numpy
from sklearn.datasets import load_iris
from support import Finished, contents, digits, laddernet

from laddernet import load_sampler


@pytest.fixture(scope="module")
def run(finished: tuple[Path, Finished]) -> Path:
    return finished[0]


def size_of(png: Path) -> tuple[int, int]:
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG")
    return int.from_bytes(content[16:20]), int.from_bytes(content[20:24])


def refused(ended: Finished, words: str) -> None:
    assert ended.code == 2
    assert ended.err.startswith("laddernet: ")
    assert len(ended.err.splitlines()) == 1
    assert words in ended.err


def test_samples_are_those_of_the_python_api_and_are_repeatable(run: Path, tmp_path: Path) -> None:
    done = laddernet("sample", run, "--class", "3,7", "--count", "2", "--out", "a.npz", "--seed", "5", cwd=tmp_path)
    assert done == (0, "4 samples written to a.npz\n", "")
    with np.load(tmp_path / "a.npz") as held:
        assert held["y"].tolist() == ["3", "3", "7", "7"]
        expected = load_sampler(run)[0].ancestral([3, 3, 7, 7], seed=5)
        np.testing.assert_array_equal(held["X"], expected.astype(np.float32))
    before = (tmp_path / "a.npz").read_bytes()
    laddernet("sample", run, "--class", "3,7", "--count", "2", "--out", "a.npz", "--seed", "5", cwd=tmp_path)
    assert (tmp_path / "a.npz").read_bytes() == before


def test_a_picture_has_a_line_for_each_class_and_one_class_is_a_square(run: Path, tmp_path: Path) -> None:
    assert laddernet("sample", run, "--count", "5", "--out", "all.png", cwd=tmp_path).code == 0
    assert laddernet("sample", run, "--count", "9", "--class", "3", "--out", "3.png", cwd=tmp_path).code == 0
    # An image has 8 by 8 pixels, a white line between two, and is enlarged three times.
    assert size_of(tmp_path / "all.png") == (3 * (5 * 9 - 1), 3 * (10 * 9 - 1))
    assert size_of(tmp_path / "3.png") == (3 * (3 * 9 - 1), 3 * (3 * 9 - 1))


def test_chains_start_from_test_rows_noise_samples_or_a_file(run: Path, tmp_path: Path) -> None:
    walk = ("sample", run, "--method", "walkback", "--steps", "3", "--count", "2", "--class", "4")
    chains = {}
    for start in ("test", "noise", "ancestral"):
        assert laddernet(*walk, "--start", start, "--out", f"{start}.npz", cwd=tmp_path).code == 0
        with np.load(tmp_path / f"{start}.npz") as held:
            chains[start] = held["chain"]
            np.testing.assert_array_equal(held["X"], held["chain"][-1])
            assert held["y"].tolist() == ["4", "4"]
    of_class = {row.tobytes() for row in digits().x_test[digits().y_test == 4]}
    assert all(row.tobytes() in of_class for row in chains["test"][0])
    assert 0.4 < chains["noise"][0].mean() < 0.6
    np.testing.assert_array_equal(chains["ancestral"][0], load_sampler(run)[0].ancestral([4, 4]).astype(np.float32))
    np.savez(tmp_path / "rows.npz", X=chains["test"][0])
    assert laddernet(*walk, "--start", "rows.npz", "--out", "file.npz", cwd=tmp_path).code == 0
    with np.load(tmp_path / "file.npz") as held:
        np.testing.assert_array_equal(held["chain"], chains["test"])
    assert laddernet(*walk, "--out", "chains.png", cwd=tmp_path).code == 0
    assert size_of(tmp_path / "chains.png") == (3 * (4 * 9 - 1), 3 * (2 * 9 - 1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--class", "11"], "digits has no class '11'; its classes are 0, 1, 2"),
        (["--class", ""], "digits has no class ''"),
        (["--out", "a.jpg"], "--out must end in .png or .npz, got a.jpg."),
        (["--method", "gibbs"], "--method must be 'ancestral' or 'walkback', got 'gibbs'."),
        (["--start", "test"], "--start is for chains; give --method walkback with it."),
        (["--method", "walkback", "--start", "x"], "--start must be ancestral, noise, test or an .npz file, got 'x'."),
        (["--method", "walkback", "--start", "no.npz"], "no.npz"),
        (["--method", "walkback", "--start", "narrow.npz"], "X in narrow.npz has 3 columns; it must have 64."),
        (["--method", "walkback", "--start", "text.npz"], "X in text.npz holds values that are not numbers"),
        (["--method", "walkback", "--start", "nan.npz"], "X in nan.npz holds nan in row 0, column 0"),
        (["--method", "walkback", "--start", "test", "--count", "99"], "--count is 99, but class 0 has 36 test rows"),
        (["--method", "walkback", "--steps", "1000000000"], "too many; give at most"),
        (["--count", "1000000"], "too many; give at most 1,562,500."),
        (["--count", "0"], "Input should be greater than or equal to 1"),
        (["--seed", "4294967296"], "--seed must be an integer from 0 to 4294967295"),
    ],
)
def test_bad_options_are_one_sentence_and_write_nothing(
    run: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    for name, X in {"narrow": np.zeros((2, 3)), "text": np.full((1, 64), "a"), "nan": np.full((1, 64), np.nan)}.items():
        np.savez(tmp_path / f"{name}.npz", X=X)
    before = contents(tmp_path)
    refused(laddernet("sample", run, "--out", "a.png", *options, cwd=tmp_path), words)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("data", ["digits"], "config.json is damaged"),
        ("data", "digit", "There is no data set 'digit'"),
        ("labels", "many", "config.json is damaged"),
        ("labels", 10**9, "labels are more than the 1437 training rows"),
        ("noise", [0.3], "config.json is damaged (noise and recon_weights must have 4 values)"),
        ("noise", ["a", 1, 1, 1], "noise must be finite numbers of 0 or more"),
        ("recon_weights", 7, "config.json is damaged"),
        ("model", "baseline", "weights.safetensors is of another network"),
        ("hidden", [8], "weights.safetensors is of another network"),
    ],
)
def test_a_damaged_configuration_is_one_sentence(
    run: Path, tmp_path: Path, name: str, value: object, words: str
) -> None:
    shutil.copytree(run, tmp_path / "bad")
    config = json.loads((tmp_path / "bad" / "config.json").read_text())
    (tmp_path / "bad" / "config.json").write_text(json.dumps({**config, name: value}))
    refused(laddernet("sample", "bad", "--out", "a.png", cwd=tmp_path), words)
    assert not (tmp_path / "a.png").exists()


def test_damaged_and_absent_weights_are_one_sentence(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "bad")
    weights = tmp_path / "bad" / "weights.safetensors"
    arrays = safetensors.numpy.load_file(weights)
    weights.write_bytes(weights.read_bytes()[:-9])
    refused(laddernet("sample", "bad", "--out", "a.png", cwd=tmp_path), "is not a whole safetensors file")
    arrays["ladder.encoder.0.W"] = arrays["ladder.encoder.0.W"] * np.nan
    safetensors.numpy.save_file(arrays, weights)
    refused(laddernet("sample", "bad", "--out", "a.png", cwd=tmp_path), "holds numbers that are not finite")
    weights.unlink()
    refused(laddernet("sample", "bad", "--out", "a.png", cwd=tmp_path), "Cannot read")
    refused(laddernet("sample", "nothing", "--out", "a.png", cwd=tmp_path), "Cannot read")


def test_a_run_without_a_decoder_is_one_sentence(tmp_path: Path) -> None:
    options = ("--labels", "40", "--hidden", "8,4", "--epochs", "1", "--model", "baseline", "--out", "run")
    assert laddernet("train", *options, cwd=tmp_path).code == 0
    refused(laddernet("sample", "run", "--out", "a.png", cwd=tmp_path), "The model baseline has no decoder")


def test_a_run_of_a_users_table_is_sampled_with_that_table(tmp_path: Path) -> None:
    table = load_iris(as_frame=True).frame
    table["species"] = iris.NAMES[table.pop("target")]
    table.to_csv(tmp_path / "digits.csv", index=False)  # the name of another data set
    of_table = ["--data", "digits.csv", "--target", "species", "--test-share", "0.2"]
    trained = laddernet(
        "train", *of_table, "--labels", "30", "--hidden", "8", "--epochs", "2", "--out", "run", cwd=tmp_path
    )
    assert trained.code == 0, trained.err
    sample = ("sample", "run", "--out", "rows.npz", "--count", "2")
    refused(laddernet(*sample, cwd=tmp_path), "was trained on a file of your own; give its data too (--data)")
    assert laddernet(*sample, *of_table, cwd=tmp_path).code == 0
    with np.load(tmp_path / "rows.npz") as held:
        assert held["X"].shape == (6, 4)
        assert sorted(set(held["y"])) == ["setosa", "versicolor", "virginica"]
    kept = contents(tmp_path)
    refused(laddernet(*sample, *of_table[2:], cwd=tmp_path), "--target is for a table; give the table as --data")
    refused(laddernet(*sample, *of_table[:-1], "0.3", cwd=tmp_path), "was trained on other data than this digits")
    refused(laddernet(*sample, "--data", "digits", cwd=tmp_path), "was trained on other data than this digits")
    assert contents(tmp_path) == kept


def test_rows_that_are_no_images_have_no_picture(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, dataset = load_sampler(run)
    rows = dataclasses.replace(dataset, image_shape=None)
    monkeypatch.setattr("laddernet.training.samples.load_sampler", lambda folder, data: (sampler, rows))
    words = "The rows of digits are not images; give --out a name that ends in .npz."
    refused(laddernet("sample", run, "--out", "a.png", cwd=tmp_path), words)
    assert laddernet("sample", run, "--out", "a.npz", "--count", "1", cwd=tmp_path).code == 0
