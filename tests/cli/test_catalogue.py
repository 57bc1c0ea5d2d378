import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from support import laddernet

from laddernet.cli.catalogue import describe_models
from laddernet.network.models import MODELS


def test_models_shows_every_id_with_its_description_and_number_of_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.cli.catalogue.out", Console(width=200))
    done = laddernet("models", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    lines = {line.strip(" │├└─").split("  ")[0]: line for line in done.out.splitlines()}
    for model in MODELS.values():
        assert model.description in lines[model.id]
    assert "[u, z̃, u⊙z̃]" in lines["amlp-4"]
    assert lines["baseline"].rstrip().endswith("1,541,020")
    assert {"Vanilla", "Baseline models", "Removal of a component", "Replacement of a component"} <= lines.keys()


def test_models_fits_a_narrow_terminal_without_losing_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.cli.catalogue.out", Console(width=60))
    out = laddernet("models", cwd=tmp_path).out
    assert max(map(cell_len, out.splitlines())) <= 60
    words = set(re.sub("[│├└─]", " ", out).split())
    assert all(set(f"{model.id} {model.description}".split()) <= words for model in MODELS.values())


def test_models_as_json_are_twenty_objects_with_the_parameters_of_the_papers_network(tmp_path: Path) -> None:
    done = laddernet("models", "--json", cwd=tmp_path)
    models = {model["id"]: model for model in json.loads(done.out)}
    assert (done.code, done.err, len(models)) == (0, "", 20)
    assert list(models) == list(MODELS)
    assert all(isinstance(model["parameters"], int) for model in models.values())
    assert all(model["paper_name"] and model["description"] for model in models.values())
    assert models["amlp-2-2-2"]["paper_name"] == "AMLP [2,2,2]"
    # By hand, for 784-1000-500-250-250-250-10: weights up, γ and β; then weights down, and per unit 9 or 23.
    weights = 784 * 1000 + 1000 * 500 + 500 * 250 + 250 * 250 + 250 * 250 + 250 * 10
    above_input = 1000 + 500 + 250 + 250 + 250 + 10
    baseline = weights + 2 * above_input
    assert models["baseline"]["parameters"] == baseline
    assert models["vanilla"]["parameters"] == baseline + weights + 9 * (784 + above_input)
    per_unit = (3 * 2 + 2) + (2 * 2 + 2) + (2 * 2 + 2) + (2 + 1)
    assert models["amlp-2-2-2"]["parameters"] == baseline + weights + per_unit * (784 + above_input)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "a cache [bold]"  # what Rich would take for markup must survive
    monkeypatch.setenv("LADDERNET_CACHE", str(cache))
    monkeypatch.setattr("laddernet.cli.catalogue.out", Console(width=300))
    return cache


def test_data_lists_what_is_known_and_where_it_is(tmp_path: Path, empty_cache: Path) -> None:
    done = laddernet("data", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    _, digits_line, mnist_line, _ = done.out.splitlines()
    assert re.search(r"digits +1,437 \+ 360 +64 +10 +ships with scikit-learn", digits_line)
    assert re.search(r"mnist +60,000 \+ 10,000 +784 +10 ", mnist_line)
    assert f"{empty_cache}/mnist (not fetched: laddernet data mnist)" in mnist_line


def test_data_as_json_is_a_list_of_objects(tmp_path: Path, empty_cache: Path) -> None:
    digits_info, mnist_info, _ = json.loads(laddernet("data", "--json", cwd=tmp_path).out)
    assert (digits_info["name"], digits_info["n_train"], digits_info["cached"]) == ("digits", 1437, True)
    assert (mnist_info["name"], mnist_info["where"], mnist_info["cached"]) == ("mnist", f"{empty_cache}/mnist", False)


def test_data_that_ships_with_a_package_need_not_be_fetched(tmp_path: Path) -> None:
    done = laddernet("data", "digits", cwd=tmp_path)
    assert done == (0, "digits: ships with scikit-learn, nothing to fetch\n", "")


def test_the_list_that_ships_is_that_of_the_network(tmp_path: Path) -> None:
    shipped = json.loads(laddernet("models", "--json", cwd=tmp_path).out)
    assert shipped == describe_models(), "write it anew: python -m laddernet.cli.catalogue"
