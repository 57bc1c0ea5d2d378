"""Presets, and the plan file of a study."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from studies import tables, tiny
from support import digits, laddernet, tiny_config

from laddernet.errors import InputError
from laddernet.study.plan import extend_plan, keep_plan, plan, preset, read_plan, shape
from laddernet.training.config import REVISION, Config
from laddernet.training.settings import configure


def test_the_paper_preset_is_table_1() -> None:
    paper = preset("paper")
    assert (paper.data, paper.labels, paper.seeds, paper.epochs) == ("mnist", (100, 1000, 60000), 10, 150)
    assert len(paper.models) == 20


def test_runs_that_differ_in_what_is_compiled_share_no_program() -> None:
    config = next(iter(tiny().values()))
    changes = ({"copies": 2}, {"batch_size": 7}, {"labelled_batch_size": 7}, {"model": "gaussian"}, {"hidden": (8,)})
    assert len({shape(config), *(shape(replace(config, **change)) for change in changes)}) == 1 + len(changes)
    assert shape(config) == shape(replace(config, seed=9, noise=(0.1,) * 4, learning_rate=0.1, epochs=1))


def test_a_plan_grows_but_does_not_mix_settings(tmp_path: Path) -> None:
    first = tiny()
    keep_plan(tmp_path, first, store=None, command="one")
    vanilla = {f: c for f, c in tiny(noise=0.1).items() if c.model == "vanilla"}
    keep_plan(tmp_path, vanilla, store=None, command="two")
    held = read_plan(tmp_path)
    assert (held.store, held.command) == (None, "two")
    assert held.configs == {**{f: c for f, c in first.items() if c.model == "linear"}, **vanilla}


def test_a_plan_of_the_first_format_is_read(computed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.plan._FIRST_REVISION", REVISION)  # that of the runs here
    held = json.loads((computed / "study.json").read_text())
    old = {"store": None, "command": "old", "runs": [run["config"] for run in held["runs"]]}
    for config in old["runs"]:
        del config["source"]
    before = tables(computed)
    (computed / "study.json").write_text(json.dumps(old))
    assert laddernet("report", "--out", ".", cwd=computed).code == 0
    assert tables(computed) == before


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 3, "runs": [], "store": null, "command": ""}',
        b'{"format": 2, "runs": [], "store": null, "command": ""}',
        b'{"format": 2, "runs": [{"fingerprint": "f", "revision": 9, "config": {}}], "store": null, "command": ""}',
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "study.json").write_bytes(text)
    with pytest.raises(InputError, match="is not a plan of this version"):
        read_plan(tmp_path)


def test_a_plan_whose_revision_is_no_number_is_refused(computed: Path) -> None:
    path = computed / "study.json"
    held = path.read_bytes()
    plan = json.loads(held)
    plan["runs"][0]["revision"] = [REVISION]
    path.write_text(json.dumps(plan))
    with pytest.raises(InputError, match=r"the revision \[\d+\] is not a number"):
        read_plan(computed)
    path.write_bytes(held)


def test_a_plan_that_names_no_revision_finds_its_runs_of_revision_9(tmp_path: Path) -> None:
    config = configure(digits(), labels=40, hidden=(8, 4), epochs=4, tuned=False)
    values = {name: value for name, value in asdict(config).items() if name not in ("source", "precision")}
    (tmp_path / "study.json").write_text(json.dumps({"store": None, "command": "laddernet study", "runs": [values]}))
    then = "4b5eb34aa2d909d3a9d19ee6d84214392b4a63f3199fa3a04d2cb55578853b95"  # what that revision computed
    found = read_plan(tmp_path)
    assert found.configs == {then: config}
    assert found.revisions == {then: 9}


@pytest.mark.parametrize(("name", "value"), [("store", 3), ("store", []), ("command", None)])
def test_a_plan_with_other_types_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    config = tiny_config()
    keep_plan(tmp_path, {config.fingerprint: config}, store=None, command="laddernet study")
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(InputError, match="must be text"):
        read_plan(tmp_path)
    ended = laddernet("study", "status", "--out", ".", cwd=tmp_path)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "is not a plan" in ended.err


def of_content(content: str | None, **changes: Any) -> dict[str, Config]:
    configs = [replace(config, content=content) for config in tiny(**changes).values()]
    return {config.fingerprint: config for config in configs}


def test_runs_of_a_changed_file_replace_those_of_the_file_before(tmp_path: Path) -> None:
    keep_plan(tmp_path, of_content("a"), store=None, command="one", data="data-a.npz")
    left = keep_plan(tmp_path, of_content("b", models=("vanilla",)), store=None, command="two", data="data-b.npz")
    assert left == list(of_content("a"))
    assert read_plan(tmp_path).configs == of_content("b", models=("vanilla",))
    assert read_plan(tmp_path).data == "data-b.npz"
    assert extend_plan(tmp_path, of_content("a"), store=None, command="three") == list(of_content("a"))
    assert extend_plan(tmp_path, of_content("b"), store=None, command="four") == []
    assert read_plan(tmp_path).data == "data-b.npz"


def test_a_plan_keeps_which_runs_are_untuned_until_their_command_is_given_again(tmp_path: Path) -> None:
    vanilla, linear = (tiny(models=(model,)) for model in ("vanilla", "linear"))
    keep_plan(tmp_path, linear, store=None, command="one", untuned=dict.fromkeys(linear, "--data digits"))
    keep_plan(tmp_path, vanilla, store=None, command="two")
    assert read_plan(tmp_path).untuned == dict.fromkeys(linear, "--data digits")
    keep_plan(tmp_path, linear, store=None, command="three")
    assert read_plan(tmp_path).untuned == {}


def test_runs_of_another_precision_share_no_program() -> None:
    assert shape(tiny_config()) != shape(tiny_config(precision="bfloat16"))


def test_a_study_trains_all_its_runs_with_its_precision() -> None:
    configs = plan(digits(), preset("demo"), precision="bfloat16")
    assert {config.precision for config in configs.values()} == {"bfloat16"}
