"""The sampler of a run."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support import Finished, digits

from laddernet import InputError, Sampler, load_run, load_sampler, training_data


def test_the_statistics_are_those_of_the_runs_training_rows(finished: tuple[Path, Finished]) -> None:
    sampler, dataset = load_sampler(finished[0])
    config, trained = load_run(finished[0])
    rows = training_data(digits(), config.labels, config.validation, config.seed).x_unlabelled
    expected = Sampler.of(trained.ladder, rows, config.noise, config.recon_weights)
    assert dataset.name == "digits"
    assert (sampler.noise_std, sampler.recon_weights) == (config.noise, config.recon_weights)
    for ours, theirs in zip(sampler.layers, expected.layers, strict=True):
        np.testing.assert_array_equal(ours.u_mu, theirs.u_mu)
    # The clean path's statistics are those that the run keeps for prediction.
    np.testing.assert_allclose(sampler.layers[1].mu, trained.statistics.mu[0], rtol=1e-3, atol=1e-4)


def test_a_run_of_another_data_set_is_refused(finished: tuple[Path, Finished], tmp_path: Path) -> None:
    shutil.copytree(finished[0], tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "data": "small"}))
    small = digits().__class__(
        "small",
        *[part for _ in range(2) for part in (digits().x_train[:, :9].copy(), digits().y_train)],
        digits().classes,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laddernet.training.samples.load", lambda name: small)
        with pytest.raises(InputError, match="has 64 columns and 10 classes, its data set small has 9 and 10"):
            load_sampler(tmp_path / "run")
