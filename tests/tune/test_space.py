"""Search spaces: those that ship, and a user's own."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from searches import refuses
from support import laddernet

from laddernet.errors import InputError
from laddernet.network.models import MODELS
from laddernet.training.settings import RECIPES, published
from laddernet.tune.space import Spaces, as_values


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("baseline", ["learning_rate"]),
        ("baseline-noise", ["noise"]),
        ("first-noise", ["noise", "lambda_0", "lambda_1", "lambda_2"]),
        ("first-recons", ["noise", "lambda_0"]),
        ("no-lateral", ["noise", "lambda_0"]),
        ("mlp-2-2", ["noise", "lambda_0", "lambda_1", "lambda_2", "eta"]),
    ],
)
def test_a_space_holds_what_the_model_has(model: str, names: list[str]) -> None:
    assert list(Spaces().of(model).ranges) == names


def test_what_is_optional_is_searched_where_a_model_has_it() -> None:
    also = ["noise_hidden", "learning_rate"]
    assert list(Spaces().of("vanilla", also).ranges)[1::4] == ["noise_hidden", "learning_rate"]
    assert list(Spaces().of("first-noise-recons", also).ranges) == ["noise", "lambda_0", "learning_rate"]


@pytest.mark.parametrize("model", MODELS)
def test_every_space_holds_the_untuned_values(model: str) -> None:
    space = Spaces().of(model)
    untuned = as_values({**published(MODELS[model], 100), "learning_rate": RECIPES["paper"].learning_rate})
    drawn = space.drawn(untuned)
    assert drawn is not None
    assert space.values(drawn) == {name: untuned[name] for name in space.ranges}


def test_zero_is_the_lowest_tenth_of_the_scale() -> None:
    space = Spaces().of("vanilla")
    scale, weight = space.distributions()["lambda_1"], space.ranges["lambda_1"]
    start, end = np.log([scale.low, scale.high])
    assert weight.value(np.exp(start + 0.0999 * (end - start))) == 0
    assert weight.value(np.exp(start + 0.1001 * (end - start))) == weight.low
    assert weight.drawn(0) == scale.low


def test_a_users_file_changes_the_space(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        "[default]\nlambda_2 = 0\n[vanilla]\nnoise = { low = 0.2, high = 0.4 }\nlearning_rate = { optional = false }\n"
    )
    space = Spaces(file).of("vanilla")
    assert (space.ranges["noise"].low, space.ranges["noise"].grid) == (0.2, (0.2, 0.3))
    assert space.fixed == {"lambda_2": 0.0}
    assert "learning_rate" in space.ranges
    assert Spaces(file).of("linear").ranges["noise"].low == 0.05


def test_the_space_that_is_shown_can_be_given_back(tmp_path: Path) -> None:
    shown = laddernet("tune", "--show-space", "vanilla", "no-lateral", cwd=tmp_path)
    assert shown.code == 0
    assert set(tomllib.loads(shown.out)) == {"vanilla", "no-lateral"}
    (tmp_path / "same.toml").write_text(shown.out)
    for model in ("vanilla", "no-lateral"):
        assert Spaces(tmp_path / "same.toml").of(model) == Spaces().of(model)


def test_a_range_without_a_grid_can_be_given_back(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("[vanilla]\nnoise = { low = 0.6, high = 0.7 }\n")  # no point of the default grid is in it
    space = Spaces(file).of("vanilla")
    assert space.ranges["noise"].grid == ()
    (tmp_path / "same.toml").write_text(Spaces(file).to_toml("vanilla"))
    assert Spaces(tmp_path / "same.toml").of("vanilla") == space


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[vanilla", "is not TOML"),
        ("noise = 1", "outside of a table"),
        ("[vanila]\n", "did you mean 'vanilla'"),
        ("[vanilla]\nnois = 1", "has 'nois' in [vanilla]; give some of noise,"),
        ("[vanilla]\neta = 1", "has eta, which vanilla does not have; remove it."),
        ("[vanilla]\nnoise = 'much'", "write a number, or some of"),
        ("[vanilla]\nnoise = { low = 0.1, high = nan }", "write a number, or some of"),
        ("[vanilla]\nnoise = { high = 0.01 }", "ranges from 0.05 to 0.01; low must be"),
        ("[vanilla]\nnoise = { log = true, low = 0 }", "begins at 0; low must be above 0."),
        ("[vanilla]\nnoise = { zero = true }", "has zero without log"),
        ("[vanilla]\nnoise = { grid = [2] }", "has a grid outside its range; keep it within 0.05 and 1."),
        ("[vanilla]\nnoise = -1", "must be a number of 0 or more, got -1."),
    ],
)
def test_a_bad_space_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "space.toml").write_text(text)
    refuses(tmp_path, ("vanilla", "--space", "space.toml"), sentence)


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 2000, "[default]\nnoise = " + "{ a = " * 2000, "[default]\nnoise = " + "9" * 5000],
    ids=["nested", "nested by tables", "an integer of 5,000 digits"],
)
def test_a_space_that_is_nested_too_deeply_or_has_numbers_too_long_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(InputError, match=r"t is not TOML \("):
        Spaces(tmp_path / "t")
