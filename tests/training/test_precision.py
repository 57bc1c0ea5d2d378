"""Matrix products in bfloat16, from the settings to the trained network. The kernels themselves: test_kernels.py."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.datasets import load_digits
from support import OPTIONS, digits, laddernet, tiny_config, tiny_data

from laddernet import LadderClassifier, machine
from laddernet.errors import InputError
from laddernet.kernels.products import PRECISIONS
from laddernet.study.plan import plan, preset, shape
from laddernet.training.config import Config
from laddernet.training.loop import train

NOTICE = "This processor has no bfloat16 units: it gives the results of bfloat16, but no faster than float32."


def without_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("flags\t\t: fpu avx512f\n")
    monkeypatch.setattr(machine, "_ROOT", tmp_path)


def test_precision_is_part_of_the_fingerprint_and_float32_is_what_runs_had_before() -> None:
    float32, bfloat16 = tiny_config(), tiny_config(precision="bfloat16")
    assert float32.fingerprint != bfloat16.fingerprint
    assert shape(float32) != shape(bfloat16)
    before = {name: value for name, value in asdict(float32).items() if name != "precision"}
    assert Config.from_json(before).fingerprint == float32.fingerprint


@pytest.mark.parametrize("bad", ["float16", "BFLOAT16", None, 32, ["bfloat16"]])
def test_another_precision_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match="precision must be 'float32' or 'bfloat16', got"):
        tiny_config(precision=bad)
    with pytest.raises(InputError, match="precision must be 'float32' or 'bfloat16', got"):
        LadderClassifier(precision=bad).fit([[0.0], [1.0]], [0, 1])  # type: ignore[arg-type]


def test_a_run_in_bfloat16_learns_otherwise_and_as_well() -> None:
    ends = {}
    for precision in PRECISIONS:
        config = tiny_config(precision=precision, epochs=8)
        trained = train(config, tiny_data(config))
        assert {leaf.dtype for leaf in jax.tree.leaves(trained.ladder)} == {np.dtype(np.float32)}
        ends[precision] = trained.history[-1]["cost"]
    assert ends["float32"] != ends["bfloat16"]
    np.testing.assert_allclose(ends["float32"], ends["bfloat16"], rtol=0.02)


def test_the_commands_pass_it_on_and_say_when_it_is_no_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_units(tmp_path, monkeypatch)
    done = laddernet("train", *OPTIONS, "--precision", "bfloat16", "--out", "run", cwd=tmp_path)
    assert (done.code, done.err.splitlines()) == (0, [NOTICE])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["precision"] == "bfloat16"
    refused = laddernet("train", *OPTIONS, "--precision", "float16", "--out", "other", cwd=tmp_path)
    assert refused.code == 2
    assert "precision must be 'float32' or 'bfloat16', got 'float16'" in refused.err
    for command in (("study", "demo", "--dry-run"), ("tune", "vanilla", "--trials", "1")):
        done = laddernet(*command, "--precision", "float16", cwd=tmp_path)
        assert (done.code, "precision must be" in done.err) == (2, True)


def test_a_study_trains_all_its_runs_with_it() -> None:
    configs = plan(digits(), preset("demo"), precision="bfloat16")
    assert {config.precision for config in configs.values()} == {"bfloat16"}


def test_a_run_folder_from_before_this_setting_goes_on(tmp_path: Path) -> None:
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


def test_the_classifier_learns_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, truth = load_digits(return_X_y=True)
    y = np.where(np.arange(len(truth)) < 100, truth, -1)
    new = partial(LadderClassifier, max_steps=300, random_state=0)
    fitted = {precision: new(precision=precision).fit(x, y) for precision in PRECISIONS}
    scores = {precision: one.score(x[100:], truth[100:]) for precision, one in fitted.items()}
    assert fitted["float32"].history_[-1]["cost"] != fitted["bfloat16"].history_[-1]["cost"]
    assert scores["bfloat16"] > scores["float32"] - 0.03
    without_units(tmp_path, monkeypatch)
    with pytest.warns(RuntimeWarning, match=NOTICE):
        LadderClassifier(max_steps=1, precision="bfloat16").fit(x, y)
