"""A fit: its networks, rows, histories, early stopping, and warm start."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from iris import SETTINGS, TRUTH, X, few, fit, fitted, scaled, seen, three
from scipy import sparse
from sklearn.datasets import load_digits
from support import NO_UNITS, without_units

from laddernet import DivergedError, InputError, LadderClassifier
from laddernet.classifier.fit import _Watch
from laddernet.kernels.products import PRECISIONS
from laddernet.network.combinators import Linear
from laddernet.network.ladder import statistics
from laddernet.training import step
from laddernet.training.rows import gathered_steps


def test_it_learns_from_the_unlabelled_rows() -> None:
    assert fitted().score(X, TRUTH) > 0.9


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    same, other = fit(), fit(random_state=1)
    assert np.array_equal(fitted().predict_proba(X), same.predict_proba(X))
    assert not np.array_equal(fitted().predict_proba(X), other.predict_proba(X))


def test_tables_with_other_numbers_of_rows_share_what_was_compiled() -> None:
    fitted()
    before = step.run_steps._cache_size()
    fit(X[::2], few()[::2], noise=0.1, learning_rate=0.01, recon_weights=1.0, weight_decay=0.0, max_steps=3)
    fit(X[:141], few(11)[:141], max_steps=40, class_weight="balanced")
    assert step.run_steps._cache_size() == before


def test_several_networks_decide_by_their_logits_each_with_its_share() -> None:
    logits = []
    for held, depth in zip(three()._networks, (3, 3, 1), strict=True):
        encoder = [
            {name: held[f"encoder.{l}.{name}"].astype(float) for name in ("W", "gamma", "beta")} for l in range(depth)
        ]
        logits.append(np.log(reference.predict({"encoder": encoder}, scaled(), seen())))
    assert np.abs(logits[0] - logits[1]).max() > 0.1
    # Logarithms of probabilities are logits but for a number that all classes share.
    mean = np.average(logits, axis=0, weights=[0.3, 0.3, 0.4])
    expected = np.exp(mean) / np.exp(mean).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(three().predict_proba(X), expected, atol=2e-5)
    assert three().transform(X).shape == (150, 2 * 4 + 2 * 3)  # of the last one both signs of its logits
    assert three().n_steps_ == 3 * 256
    assert [record["network"] for record in three().history_] == [0] * 8 + [1] * 8 + [2] * 8


def test_smoothed_labels_are_learned_less_by_heart() -> None:
    """Labels that are read as any of three classes once in two times are right two times in three."""
    sure = fit(y=TRUTH).predict_proba(X)[np.arange(150), TRUTH]
    smooth = fit(y=TRUTH, label_smoothing=0.5).predict_proba(X)[np.arange(150), TRUTH]
    assert np.median(sure) > 0.95
    assert np.median(smooth) == pytest.approx(2 / 3, abs=0.07)


def test_the_first_of_several_networks_is_the_one_that_would_be_alone() -> None:
    alone, with_others = fitted()._networks[0], fit(n_networks=2)._networks[0]
    for name, array in alone.items():
        assert np.array_equal(array, with_others[name]), name


def test_the_history_tells_steps_rates_and_costs() -> None:
    steps = [record["step"] for record in fitted().history_]
    assert steps == list(range(32, 257, 32))
    assert fitted().n_steps_ == 256
    rates = [record["learning_rate"] for record in fitted().history_]
    assert rates[0] == pytest.approx(0.02)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.001
    assert {"cost", "cross_entropy", "reconstruction_0", "reconstruction_2"} <= fitted().history_[0].keys()
    assert fit(max_steps=70).n_steps_ == fit(max_steps=70).history_[-1]["step"] == 70
    assert fit(max_steps=None, epochs=3).n_steps_ == 6  # two batches of 100 make a pass over 150 rows


def test_class_weights_move_the_border() -> None:
    y = np.where(TRUTH == 0, -1, TRUTH)  # the two that overlap
    one, other = (
        np.mean(fit(y=y, class_weight={1: a, 2: 1.0}).predict(X[50:]) == 1) for a in (0.02, 50.0)
    )  # fmt: skip
    assert one < other
    with pytest.raises(InputError, match=r"class_weight is .*not below 0"):
        fit(class_weight={0: -1.0, 1: 1.0, 2: 1.0})


def test_classes_may_have_other_shares_among_the_labels_than_among_the_rows() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], [950, 50])
    rows = rng.normal(size=(1000, 4)) + 3 * truth[:, None]
    y = np.where(np.isin(np.arange(1000), [*range(20), *range(950, 970)]), truth, -1)
    assert fit(rows, y, scale="columns").score(rows, truth) > 0.98


def test_labels_of_all_classes_count_where_only_some_can_normalise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laddernet.classifier.fit._STATISTICS_ROWS", 100)
    assert fit(y=TRUTH).score(X, TRUTH) > 0.9  # the first fifty rows, which are sorted, are of one class


def test_early_stopping_keeps_the_best_on_rows_held_out() -> None:
    stopped = fit(y=few(20), early_stopping=True, n_iter_no_change=2, max_steps=2000)
    errors = [record["validation_error"] for record in stopped.history_]
    assert stopped.n_steps_ < 2000
    assert min(errors[-2:]) >= min(errors)
    with pytest.warns(UserWarning, match="too few labels"):
        assert "validation_error" not in fit(y=few(4), early_stopping=True).history_[0]
    with pytest.raises(InputError, match=r"validation_fraction must be a finite number above 0 and below 1, got 1\.5"):
        fit(early_stopping=True, validation_fraction=1.5)


def test_a_warm_start_goes_on_where_the_last_fit_ended() -> None:
    warm = LadderClassifier(**SETTINGS, warm_start=True).fit(X, few())
    first = warm.history_[0]["cost"]
    warm.fit(X, few())
    assert warm.history_[0]["cost"] < first / 2
    with pytest.raises(InputError, match=r"The last fit was for the classes \[0, 1, 2\], this one is for \[0, 1\]"):
        warm.fit(X[:100], TRUTH[:100])
    alike = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    with pytest.raises(InputError, match=r"The last fit had 4 columns, X has 3; with warm_start=True give the same\."):
        warm.fit(X[:, :3], few())
    scaled = fit(alike, n_networks=None, warm_start=True)
    assert len(scaled.fit(X * [1, 100, 10, 1], few())._networks) == 1  # though alone these columns would get four
    for changed in ({"n_networks": 3}, {"linear_share": 0.5}):
        two = fit(warm_start=True, n_networks=2).set_params(**changed)
        with pytest.raises(
            InputError, match="The last fit trained 2 networks, this one is to train 3; with warm_start=True"
        ):
            two.fit(X, few())


@pytest.mark.parametrize(
    "case",
    [
        "a class with one label",
        "no unlabelled row",
        "fewer rows than a batch",
        "constant, tiny, huge and equal columns",
    ],
)
def test_odd_tables_will_do(case: str) -> None:
    rows, y = X, few()
    if case == "a class with one label":
        y = few(1)
    elif case == "no unlabelled row":
        y = TRUTH
    elif case == "fewer rows than a batch":
        rows, y = X[::10], TRUTH[::10]
    else:
        rows = np.column_stack([X[:, 2] * 1e9 + 1e12, X[:, 3] * 1e-12, np.full(150, 7.0), X[:, 2] * 1e9 + 1e12])
    done = fit(rows, y, max_steps=1000)
    assert np.isfinite(done.predict_proba(rows)).all()
    assert done.score(rows, TRUTH if len(rows) == 150 else y) > 0.75


@pytest.mark.parametrize("model", ["baseline", "gaussian", Linear])
def test_any_model_will_do(model: Any) -> None:
    assert fit(model=model).score(X, TRUTH) > 0.6


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_rows_give_what_dense_ones_give(kind: Any) -> None:
    done = fit(kind(X))
    np.testing.assert_allclose(done.predict_proba(kind(X)), fitted().predict_proba(X), atol=1e-6)


def test_sparse_rows_are_made_dense_and_scaled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr("laddernet.training.rows.dense", lambda rows: made.append(rows.shape[0]) or rows.toarray())
    monkeypatch.setattr("laddernet.training.rows._BLOCK_CELLS", 700 * X.shape[1])
    many = sparse.csr_array(np.tile(X, (60, 1)))
    done = fit(many, np.tile(few(), 60), max_steps=2)
    assert max(made) == 700
    assert sum(made) == 2 * 3200 + 10_000
    np.testing.assert_array_equal(done.classes_, [0, 1, 2])


def test_very_wide_rows_are_gathered_for_fewer_steps_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = {columns: gathered_steps((100, 100), columns) for columns in (4, 784, 20_000, 10**6)}
    assert chunks == {4: 32, 784: 32, 20_000: 8, 10**6: 1}
    monkeypatch.setattr("laddernet.training.rows.CHUNK_CELLS", 2 * 200 * X.shape[1])
    assert [record["step"] for record in fit(max_steps=5).history_] == [2, 4, 5]


def test_integers_and_float32_will_do() -> None:
    rows = np.round(X * 10).astype(np.int16)
    np.testing.assert_allclose(
        fit(rows).predict_proba(rows), fit(rows.astype(np.float64)).predict_proba(rows), atol=1e-5
    )
    assert fit(X.astype(np.float32)).predict_proba(X).dtype == np.float32


def test_keeping_to_one_core_changes_nothing() -> None:
    np.testing.assert_array_equal(fit(n_jobs=1).predict_proba(X), fitted().predict_proba(X))


def test_networks_that_are_trained_side_by_side_are_those_that_are_trained_one_after_the_other() -> None:
    several: dict[str, Any] = {"n_networks": 3, "linear_share": 0.25, "max_steps": 64}
    together, in_turn = fit(**several), fit(**several, n_jobs=1)
    np.testing.assert_array_equal(together.predict_proba(X), in_turn.predict_proba(X))
    assert together.history_ == in_turn.history_
    assert [record["network"] for record in together.history_] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_when_one_network_fails_the_others_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def after_chunk(watch: _Watch, record: dict[str, Any], network: Any) -> bool:
        steps.append(record["step"])
        if record["step"] == 96:
            raise DivergedError("A network diverged.")
        return False

    monkeypatch.setattr(_Watch, "after_chunk", after_chunk)
    with pytest.raises(DivergedError, match="A network diverged"):
        fit(n_networks=4, max_steps=32_000)
    assert max(steps) <= 96 + 32 * 8  # each ends after the chunk that it was at, or one that it had begun
    monkeypatch.undo()
    assert fit(n_networks=2).score(X, TRUTH) > 0.8


def test_the_statistics_of_each_network_are_those_of_the_reference() -> None:
    for held, layers in zip(three()._networks, (3, 3, 1), strict=True):
        names = ("W", "gamma", "beta")
        encoder = [{name: held[f"encoder.{l}.{name}"].astype(float) for name in names} for l in range(layers)]
        expected = reference.clean_encoder({"encoder": encoder}, seen())
        for name in ("mu", "sigma"):
            for l in range(layers):
                found = held[f"statistics.{name}.{l}"]
                np.testing.assert_allclose(found, expected[name][l + 1], rtol=1e-5, atol=1e-5)


def test_the_statistics_are_compiled_once_for_a_table_and_a_network() -> None:
    fitted()
    before = statistics._cache_size()
    assert len(fit(random_state=1, early_stopping=True, max_steps=96).history_) == 3  # an evaluation after each
    assert statistics._cache_size() == before
    for settings in ({"max_steps": 1}, {"max_steps": 64, "scale": "range"}):
        fit(X[:115], few()[:115], **settings)
        assert statistics._cache_size() == before + 1


@pytest.mark.parametrize(("cells", "rows"), [(4 * 600, 600), (1, 2 * 100)])
def test_statistics_of_wide_rows_are_of_fewer_rows_but_at_least_of_those_of_a_step(
    cells: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes: list[tuple[int, ...]] = []
    monkeypatch.setattr("laddernet.classifier.fit.CHUNK_CELLS", cells)
    monkeypatch.setattr(
        "laddernet.classifier.fit.statistics", lambda encoder, x: shapes.append(x.shape) or statistics(encoder, x)
    )
    fit(np.tile(X, (8, 1)), np.tile(few(), 8), max_steps=1)
    assert shapes == [(rows, 4)]


def test_it_learns_in_bfloat16_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, truth = load_digits(return_X_y=True)
    y = np.where(np.arange(len(truth)) < 100, truth, -1)
    new = partial(LadderClassifier, max_steps=300, random_state=0)
    fitted = {precision: new(precision=precision).fit(x, y) for precision in PRECISIONS}
    scores = {precision: one.score(x[100:], truth[100:]) for precision, one in fitted.items()}
    assert fitted["float32"].history_[-1]["cost"] != fitted["bfloat16"].history_[-1]["cost"]
    assert scores["bfloat16"] > scores["float32"] - 0.03
    without_units(tmp_path, monkeypatch)
    with pytest.warns(RuntimeWarning, match=NO_UNITS):
        LadderClassifier(max_steps=1, precision="bfloat16").fit(x, y)
