"""Variants of LadderClassifier on the half of the sets to choose by, compared set by set with its defaults.

    python benchmarks/few_labels_variants.py [--sets dna,pima] [--scale 0.7] [--labels 3,10] [--draws 2] --out FOLDER

The networks of each fit are trained once and kept in FOLDER, as logits of the test rows and of the training rows: the
same command resumes. A variant of the logits, such as another linear share or a factor, needs no further fit.
At most 1000 training rows and 3000 test rows of a set are used, and draws that the comparison does not use.
"""

import argparse
import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import few_labels_data as data
import few_labels_halves as halves
import numpy as np
from few_labels_methods import Predicted, draw_labels, measured
from few_labels_page import rows_of
from numpy.typing import NDArray

from laddernet.classifier import fit as fitting
from laddernet.classifier.confidence import linear_accuracy, sharpness
from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.scaling import find_scaling
from laddernet.inference.network import Scaling, folded, softmax

MOST_ROWS, MOST_TEST_ROWS = 1000, 3000
FIRST_DRAW = 200
MEASURES = ("error", "balanced_error", "log_loss", "ece")
SHARES = (0.1, 0.25, 0.4, 0.5, 0.6)

Kept = Mapping[str, NDArray[Any]]
Differences = dict[str, dict[str, list[NDArray[np.float64]]]]  # of the measures: by variant, by set


def two_valued(x: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which columns hold two values."""
    return np.array([len(np.unique(column)) == 2 for column in x.T])


def scaled(factor: float | None) -> Callable[..., tuple[str, Scaling]]:
    """Return `find_scaling` with columns of two values multiplied by a factor; None: halfway to their own unit.

    The noise has one deviation for all columns: a smaller factor is more noise in these columns, and less
    reconstruction.
    """

    def find(x: NDArray[np.float32], how: str = "auto") -> tuple[str, Scaling]:
        how, scaling = find_scaling(x, how)
        columns = two_valued(x)
        factors = scaling.factor.copy()
        factors[columns] = np.sqrt(2 * factors[columns]) if factor is None else factor * factors[columns]
        return how, Scaling(scaling.shift, factors, scaling.bound)

    return find


def drawn(name: str, labels: int, draw: int) -> tuple[data.Parts, NDArray[np.float32], NDArray[np.int32]]:
    """Return a set, and the training rows and labels of a draw."""
    parts = data.load(name)
    y = draw_labels(parts.y_train, labels, draw)
    known, others = np.flatnonzero(y >= 0), np.random.default_rng(draw).permutation(np.flatnonzero(y < 0))
    rows = np.sort(np.concatenate([known, others[: max(0, MOST_ROWS - len(known))]]))
    return parts, parts.x_train[rows], y[rows]


def trained(path: Path, scale: str, name: str, labels: int, draw: int) -> Kept:
    """Return the logits of each network, of the test rows and of the training rows, from the folder or a fit."""
    if not path.exists():
        parts, x, y = drawn(name, labels, draw)
        factor = None if scale == "root" else float(scale)
        with patch.object(fitting, "find_scaling", scaled(factor) if factor != 1 else find_scaling):
            made = LadderClassifier(random_state=draw).fit(x, y)
        networks = [folded(arrays, made.network_.scaling) for arrays in made._networks]
        logits = {
            part: np.stack([network.logits(rows) for network in networks])
            for part, rows in (("test", parts.x_test[:MOST_TEST_ROWS]), ("un", x))
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **logits, y=y, yt=parts.y_test[:MOST_TEST_ROWS], shares=made._shares, kind=made._how)
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def joined(kept: Kept, part: str, share: float | None = None) -> NDArray[np.float64]:
    """Return the mean logits, not sharpened, with a linear share."""
    shares = kept["shares"] / kept["shares"].sum()
    if share is not None:
        deep = len(shares) - 1
        shares = np.array([(1 - share) / deep] * deep + [share])
    return np.tensordot(shares, kept[part].astype(np.float64), 1)


def variants(kept: Kept, x: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """Return the probabilities of the test rows by variant that is made of logits."""
    found = {f"linear share {share}": softmax(joined(kept, "test", share)) for share in SHARES}
    labelled = kept["y"] >= 0
    accuracy = linear_accuracy(find_scaling(x)[1](x[labelled]), kept["y"][labelled], seed=0)
    factor = sharpness(joined(kept, "un"), accuracy, int(labelled.sum()))
    found["sharpened"] = softmax(joined(kept, "test") * factor)
    found["logits × 1.5"] = softmax(joined(kept, "test") * 1.5)
    return found


def measures(kept: Kept, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    result = measured(kept["yt"], Predicted(probabilities.argmax(axis=1), probabilities, 0.0))
    return np.array([getattr(result, measure) for measure in MEASURES])


def differences(
    folder: Path, kept_only: bool, scales: Sequence[str], name: str, labels: int, draw: int
) -> dict[str, NDArray[np.float64]]:
    """Return the measures of each variant less those of the defaults, for one draw of a set."""
    file = f"{name}-{labels}-{draw}.npz"
    if kept_only and not (folder / "1" / file).exists():
        return {}
    default = trained(folder / "1" / file, "1", name, labels, draw)
    if default["kind"] != "columns":  # other defaults
        return {}
    rows = variants(default, drawn(name, labels, draw)[1])
    found = {variant: measures(default, probabilities) for variant, probabilities in rows.items()}
    for scale in scales:
        if not kept_only or (folder / scale / file).exists():
            other = trained(folder / scale / file, scale, name, labels, draw)
            found[f"columns of two values × {scale}"] = measures(other, softmax(joined(other, "test")))
    own = measures(default, softmax(joined(default, "test")))
    return {variant: values - own for variant, values in found.items()}


def summary(title: str, by_variant: Differences) -> list[str]:
    """Return a table: the mean difference over sets, its standard error, and how many sets are better and worse."""
    rows = [["", "sets", *(measure.replace("_", " ") for measure in MEASURES)]]
    for variant, by_set in by_variant.items():
        means = np.array([np.mean(of, axis=0) for of in by_set.values()])
        errors = means.std(axis=0, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.full(len(MEASURES), np.nan)
        better, worse = (means < -1e-9).sum(axis=0), (means > 1e-9).sum(axis=0)
        cells = [
            f"{mean:+.3f} ± {error:.3f} ({b}, {w})"
            for mean, error, b, w in zip(means.mean(axis=0), errors, better, worse, strict=True)
        ]
        rows.append([variant, f"{len(means)}", *cells])
    return ["", f"## {title}", "", *rows_of(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = [name for name in data.SETS if halves.half(name) == "choose"]
    parser.add_argument("--sets", default=",".join(chosen), help="of the half to choose by [default: all of it]")
    parser.add_argument("--labels", default="3,10", help="per class [default: %(default)s]")
    parser.add_argument("--draws", type=int, default=1, help="[default: %(default)s]")
    parser.add_argument("--scale", default="", help="factors of columns of two values, or root: halfway to their unit")
    parser.add_argument("--out", type=Path, required=True, help="folder of the logits")
    parser.add_argument("--kept", action="store_true", help="fit nothing; compare the fits in the folder")
    asked = parser.parse_args()
    if unknown := [name for name in asked.sets.split(",") if name not in chosen]:
        parser.error(f"{', '.join(unknown)}: not of the half to choose by; give some of {', '.join(chosen)}")
    scales = list(filter(None, asked.scale.split(",")))
    groups: dict[bool, Differences] = {False: {}, True: {}}
    for name in asked.sets.split(","):
        for labels in map(int, asked.labels.split(",")):
            if np.bincount(data.load(name).y_train).min() < labels:
                continue
            for draw in range(FIRST_DRAW, FIRST_DRAW + asked.draws):
                for variant, difference in differences(asked.out, asked.kept, scales, name, labels, draw).items():
                    by_set = groups[halves.categorical(name)].setdefault(variant, {})
                    by_set.setdefault(name, []).append(difference)
    print("Difference from the defaults without sharpening: mean ± standard error over sets (sets better, worse).")
    for kind, group in groups.items():
        if group:
            print("\n".join(summary("Categories" if kind else "Numbers", group)))


if __name__ == "__main__":
    main()
