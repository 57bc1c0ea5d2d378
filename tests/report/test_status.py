"""The estimate of the time that a study takes."""

from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from studies import tiny

from laddernet.report.status import Status, estimate
from laddernet.study.store import Store


def test_the_estimate_grows_with_what_is_left() -> None:
    few, many = (Status(tiny(batch_size=batch), []) for batch in (400, 100))
    assert 0 < estimate(few, (64, 8, 4, 10), 1198, 1, 1) < estimate(many, (64, 8, 4, 10), 100 * 1198, 1, 1)


def test_the_estimate_counts_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.report.status._gflops", lambda: 1.0)
    once, copied = (
        Status({f: replace(c, copies=copies) for f, c in tiny(batch_size=100).items()}, []) for copies in (1, 3)
    )
    size = (784, 1000, 500, 10), 10**7, 1, 1
    # 100 labelled rows, and 100 without a label of which each goes up clean and each copy up and down: three products a
    # layer, but two at the encoder's first.
    layers = 784 * 1000 + 1000 * 500 + 500 * 10
    products = [3 * (1 + 1 + 2 * copies) * layers - (1 + 1 + copies) * 784 * 1000 for copies in (1, 3)]
    assert estimate(copied, *size) / estimate(once, *size) == pytest.approx(products[1] / products[0], rel=0.01)


def test_the_estimate_is_for_so_many_cores_and_without_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.report.status._gflops", lambda: 1.0)  # of a core
    configs = tiny(models=("vanilla",), validation=0)
    with closing(Store.open(tmp_path / "study.db")) as store:
        store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
        status = Status.of(store, configs)
        # Two runs of two epochs of twelve steps: 300 rows go up and 100 come down, and a gradient costs twice as much,
        # but for that of the input.
        products = 2 * 2 * 12 * 1.4 * 2 * (3 * 400 * (64 * 8 + 8 * 4 + 4 * 10) - 300 * 64 * 8) / 1e9
        others = 2 * 2 * 12 * 0.002 + 10
        for slots, cores in ((1, 1), (4, 1), (1, 2)):
            found = estimate(status, (64, 8, 4, 10), 1198, slots, cores)
            assert found == pytest.approx((products / cores + others) / slots)
        [run] = store.claim("me", list(configs))
        store.fail("me", run.fingerprint, "It diverged.")
        left = estimate(Status.of(store, configs), (64, 8, 4, 10), 1198, 1, 1)
        assert left == pytest.approx((products + others - 10) / 2 + 10)
