"""The estimate of the time that a study takes."""

import csv
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from studies import tiny

from laddernet.report.status import Status, estimate
from laddernet.report.writers import to_csv, to_latex, to_markdown
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


def test_untuned_models_are_marked_in_the_table_with_the_command_that_tunes_them() -> None:
    configs = tiny()
    untuned = {
        f: "--data digits --recipe small --write tuned-digits.toml" for f, c in configs.items() if c.model == "linear"
    }
    status = Status(configs, [], untuned={**untuned, "of a run that has left": "--data digits"})
    sentence = (
        "Untuned with 40 labels, while other models have tuned values: linear. To tune: laddernet tune linear --labels "
        "40 --data digits --recipe small --write tuned-digits.toml; then give the study that file as --tuned. To "
        "compare all models untuned: --tuned none."
    )
    assert status.table().remarks == (sentence,)
    lines = to_markdown(status.table()).replace("\\", "").splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:] == ["vanilla", "linear, untuned"]
    assert sentence.split(":")[0] in to_latex(status.table())
    assert [row["model"] for row in csv.DictReader(to_csv(status.table()).splitlines())] == ["vanilla", "linear"]


def test_a_users_file_named_mnist_is_not_compared_with_the_paper() -> None:
    config = replace(next(iter(tiny().values())), data="mnist", labels=100)
    for content, has_paper in ((None, True), ("a digest", False)):
        of_name = replace(config, content=content)
        [row] = Status({of_name.fingerprint: of_name}, []).table().rows
        assert (row.cells[0].paper_aer is not None) is has_paper
