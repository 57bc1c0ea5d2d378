"""Coverage of the estimate of `laddernet fit`: how often does its 90 % interval hold the error on the test rows?

    python benchmarks/coverage.py [--sets iris,wine] [--draws 5] [--labels 10] [--methods a,b]

A case is one draw of labels on one set: all methods are compared by cross-validation, `auto` chooses one, its error
is estimated, and the same method is fitted to all labels and judged on the set's test rows. With ``--draw random``
the labelled rows are a random sample of the rows, ``--labels`` per class in the mean, with at least one of each
class. With ``--draw per-class`` every class has that number of labels, whatever its share of the rows. The network is
small and trains for ``--steps`` steps, at most 500 training rows are used, and gradient boosting, the slowest of the
others, is left out, since only the estimate is judged. Each case is one line of ``results/coverage.jsonl``: the
benchmark may be stopped at any time, and the same command resumes it. At the end ``results/coverage.md`` and
``results/coverage.json`` are made from all lines.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import few_labels_data as data
import numpy as np

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.held_out import cross_validate, folds_of
from laddernet.classifier.members import BLEND, BLENDED, MEMBERS, weighted
from laddernet.classifier.methods import fit_members
from laddernet.files import write_atomic
from laddernet.table.estimate import interval

RESULTS = Path(__file__).parent.parent / "results"
MOST_ROWS, MOST_TEST_ROWS = 500, 5000  # the labelled ones are among those of training
METHODS = tuple(name for name in MEMBERS if name != "boosting")
# fmt: off
SETS = (
    "moons", "circles", "imbalanced", "unscaled-blobs", "iris", "wine", "breast-cancer", "digits", "banana", "bands",
    "breast", "bupa", "contraceptive", "german", "hayes-roth", "led7digit", "magic", "mammographic", "monk-2",
    "optdigits", "phoneme", "saheart", "segment", "tae", "texture", "tic-tac-toe", "titanic", "twonorm",
)
# fmt: on


def draw_labels(y: np.ndarray, labels: int, how: str, rng: np.random.Generator) -> np.ndarray:
    """Return the classes of the rows that are drawn, and -1 for the others."""
    classes = range(int(y.max()) + 1)
    if how == "random":
        rows = rng.permutation(len(y))[: labels * len(classes)]
        absent = set(classes) - set(y[rows].tolist())
        drawn = [rows, *(rng.permutation(np.flatnonzero(y == k))[:1] for k in sorted(absent))]
    else:
        drawn = [rng.permutation(np.flatnonzero(y == k))[:labels] for k in classes]
    codes = np.full(len(y), -1)
    codes[np.concatenate(drawn)] = y[np.concatenate(drawn)]
    return codes


def measure(name: str, draw: int, labels: int, how: str, steps: int, methods: str) -> dict[str, Any]:
    """Estimate the error of the method that `auto` chooses, and measure it on test rows and unused training rows."""
    compared = methods.split(",")
    parts = data.load(name)
    rng = np.random.default_rng([draw, *name.encode()])
    codes = draw_labels(parts.y_train, labels, how, rng)
    others = rng.permutation(np.flatnonzero(codes < 0))
    rows = np.sort(np.concatenate([np.flatnonzero(codes >= 0), others[: max(MOST_ROWS - int(np.sum(codes >= 0)), 0)]]))
    left = np.setdiff1d(np.arange(len(codes)), rows)
    x, codes = parts.x_train[rows].astype(float), codes[rows]
    x_test = np.concatenate([parts.x_test, parts.x_train[left]])[:MOST_TEST_ROWS].astype(float)
    y_test = np.concatenate([parts.y_test, parts.y_train[left]])[:MOST_TEST_ROWS]
    ladder = LadderClassifier(hidden=(32,), max_steps=steps, n_networks=1, linear_share=0, random_state=draw)
    folds, repeats = folds_of(codes)
    held = cross_validate(compared, x, codes, folds=folds, repeats=repeats, ladder=ladder, seed=draw)
    default = next(iter(held.probabilities))  # the blend, if its members are compared
    method = held.choice(default)
    fitted = fit_members(compared, x, codes, ladder=ladder, seed=draw).probabilities(x_test)
    if BLEND in held.probabilities:
        fitted[BLEND] = weighted(BLENDED, fitted)
    true = {name: 100 * float(np.mean(p.argmax(axis=1) != y_test)) for name, p in fitted.items()}
    judged, wrong = len(held.codes), held.errors()[method]
    about = {"default": default, "method": method, "judged": judged, "wrong": wrong}
    return about | {
        "interval": interval(wrong, judged),
        "true": true[method],
        "errors": held.errors(),
        "true_errors": true,
    }


def kept(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Read all lines but one that a kill cut in two."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            case = json.loads(line)
        except ValueError:
            continue
        found[tuple(case["case"])] = case
    return found


def covered(case: dict[str, Any], method: str | None = None) -> bool:
    """Return whether the interval holds the test error, of the chosen method or of another."""
    low, high = case["interval"] if method is None else interval(case["errors"][method], case["judged"])
    return bool(low <= (case["true"] if method is None else case["true_errors"][method]) <= high)


def summary(cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the coverage, the mean width, and the gain of `auto` over the blend."""
    widths = [high - low for low, high in (case["interval"] for case in cases)]
    biases = [100 * case["wrong"] / case["judged"] - case["true"] for case in cases]
    return {
        "cases": len(cases),
        "default": cases[0]["default"],
        "sets": len({case["case"][0] for case in cases}),
        "coverage": 100 * float(np.mean([covered(case) for case in cases])),
        "below": 100 * float(np.mean([case["true"] < case["interval"][0] for case in cases])),
        "above": 100 * float(np.mean([case["true"] > case["interval"][1] for case in cases])),
        "width": float(np.mean(widths)),
        "bias": float(np.mean(biases)),
        "coverage_of": {
            name: 100 * float(np.mean([covered(case, name) for case in cases])) for name in cases[0]["errors"]
        },
        "not_the_default": sum(case["method"] != case["default"] for case in cases),
        "error": {
            "auto": float(np.mean([case["true"] for case in cases])),
            **{name: float(np.mean([case["true_errors"][name] for case in cases])) for name in cases[0]["true_errors"]},
        },
    }


def page(found: dict[str, dict[str, Any]]) -> str:
    """Write the page of all kinds of draws."""
    lines = ["# Coverage of the estimate", "", (__doc__ or "").split("\n\n")[2].replace("\n", " "), ""]
    for kind, about in found.items():
        how, labels, steps, methods = kind.split("/")
        command = ["python", "benchmarks/coverage.py", "--draw", how, "--labels", labels]
        command += ["--steps", steps, "--methods", methods]
        lines += [f"## {labels} labels per class, drawn {how}: {methods}", "", f"`{shlex.join(command)}`", ""]
        lines += [
            f"**The nominal 90 % interval holds the test error in {about['coverage']:.1f} %** of {about['cases']} "
            f"cases ({about['sets']} sets). The test error is below it in {about['below']:.1f} %, above it in "
            f"{about['above']:.1f} %. Its mean width is {about['width']:.1f} points; in the mean, the estimate is "
            f"{about['bias']:+.1f} points beside the test error. `auto` took another method than "
            f"{about['default']} in {about['not_the_default']} cases.",
            "",
            "| method | coverage of its interval, % | mean test error, % |",
            "|---|---|---|",
            f"| `auto` | {about['coverage']:.1f} | {about['error']['auto']:.2f} |",
            *(
                f"| `{name}` | {share:.1f} | {about['error'][name]:.2f} |"
                for name, share in about["coverage_of"].items()
            ),
            "",
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--labels", type=int, default=10)
    parser.add_argument("--draw", choices=["random", "per-class"], default="random")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    path = given.out / "coverage.jsonl"
    cases = kept(path)
    for draw in range(given.draws):
        for name in given.sets.split(","):
            case = (name, draw, given.labels, given.draw, given.steps, given.methods)
            if case in cases:
                continue
            cases[case] = {"case": list(case), **measure(*case)}
            with path.open("a") as file:
                file.write(json.dumps(cases[case]) + "\n")
            print(*case, f"{cases[case]['true']:.1f} in {cases[case]['interval']}", file=sys.stderr, flush=True)
    of_kind: dict[str, list[dict[str, Any]]] = {}
    for (_, _, labels, how, steps, methods), about in sorted(cases.items()):
        of_kind.setdefault(f"{how}/{labels}/{steps}/{methods}", []).append(about)
    found = {kind: summary(held) for kind, held in sorted(of_kind.items(), reverse=True)}
    write_atomic(given.out / "coverage.json", (json.dumps(found, indent=2) + "\n").encode())
    write_atomic(given.out / "coverage.md", page(found).encode())
    print(page(found))


if __name__ == "__main__":
    main()
