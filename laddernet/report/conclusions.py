"""The paper's conclusions, and which of them hold in a study of its table.

A conclusion is data: a weighted sum of models' errors that is above 0 if it holds. The sum is taken seed by seed, over
the seeds that all its models have, and tested as any paired comparison (comparisons.py), with Holm's correction over
the conclusions tested with the same number of labels.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from laddernet.network.models import MODELS
from laddernet.report.comparisons import Comparison, holm, t_test
from laddernet.report.numbers import chance, difference, signed
from laddernet.report.tables import PAPER, Table

Weights = Mapping[str, float]  # by model
Holds = Literal["holds", "reversed", "no clear difference", "too few seeds", "no spread"]

_COUNTED: tuple[tuple[Holds, str, str], ...] = (
    ("holds", "holds", "hold"),
    ("reversed", "is reversed", "are reversed"),
    ("no clear difference", "shows no clear difference", "show no clear difference"),
    ("too few seeds", "has too few seeds for a test", "have too few seeds for a test"),
    ("no spread", "has the same difference with every seed", "have the same difference with every seed"),
)

EXPLANATION = (
    "The conclusions of the paper, each with the sum of errors that is above 0 if it holds: mean over the common seeds "
    "± standard error, p of the t-test that it is 0 after Holm's correction over the conclusions of the column, and "
    "the same sum of the paper's averages. MLP and AMLP: of the three sizes, the one with the paper's lowest error."
)

# Names of families: of its three sizes, the one with the paper's lowest error with that number of labels.
_MLP, _AMLP = "MLP", "AMLP"
_FAMILIES = {_MLP: "mlp-", _AMLP: "amlp-"}
_WITH_DECODER = [model for model, what in MODELS.items() if what.combinator is not None and model != "vanilla"]


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper, and the sum of errors that is above 0 if it holds."""

    statement: str
    test: str  # the sum in words
    weights: Weights
    shrinks: bool = False  # the sum is lower than with the next smaller number of labels


CLAIMS = (
    Claim(
        "Lateral connections lower the error",
        "no-lateral − first-noise-recons",
        {"no-lateral": 1, "first-noise-recons": -1},
    ),
    Claim(
        "Lateral connections matter more than noise and reconstruction above the input together",
        "(no-lateral − first-noise-recons) − (first-noise-recons − vanilla)",
        {"no-lateral": 1, "first-noise-recons": -2, "vanilla": 1},
    ),
    Claim(
        "Noise lowers the error of a network without a decoder",
        "baseline − baseline-noise",
        {"baseline": 1, "baseline-noise": -1},
    ),
    Claim("Noise above the input lowers the error", "first-noise − vanilla", {"first-noise": 1, "vanilla": -1}),
    Claim(
        "Reconstruction above the input lowers the error",
        "first-recons − vanilla",
        {"first-recons": 1, "vanilla": -1},
    ),
    Claim("The sigmoid lowers the error", "no-sig − vanilla", {"no-sig": 1, "vanilla": -1}),
    Claim("The multiplicative term lowers the error", "no-mult − vanilla", {"no-mult": 1, "vanilla": -1}),
    Claim("The multiplicative term matters more than the sigmoid", "no-mult − no-sig", {"no-mult": 1, "no-sig": -1}),
    Claim("Random initial values are worse", "rand-init − vanilla", {"rand-init": 1, "vanilla": -1}),
    Claim("Reversed initial values are worse still", "rev-init − rand-init", {"rev-init": 1, "rand-init": -1}),
    Claim("Gaussian is better than vanilla", "vanilla − gaussian", {"vanilla": 1, "gaussian": -1}),
    Claim("GatedGauss is worse than Gaussian", "gated-gauss − gaussian", {"gated-gauss": 1, "gaussian": -1}),
    Claim("AMLP is better than vanilla", "vanilla − AMLP", {"vanilla": 1, _AMLP: -1}),
    Claim("AMLP is better than MLP", "MLP − AMLP", {_MLP: 1, _AMLP: -1}),
    Claim(
        "Lateral connections matter less with more labels",
        "(no-lateral − first-noise-recons) with fewer labels − the same",
        {"no-lateral": 1, "first-noise-recons": -1},
        shrinks=True,
    ),
    Claim(
        "Reconstruction above the input matters less with more labels",
        "(first-recons − vanilla) with fewer labels − the same",
        {"first-recons": 1, "vanilla": -1},
        shrinks=True,
    ),
    Claim(
        "All differences between models shrink with more labels",
        "(mean of the other models with a decoder − vanilla) with fewer labels − the same",
        {**dict.fromkeys(_WITH_DECODER, 1 / len(_WITH_DECODER)), "vanilla": -1},
        shrinks=True,
    ),
)


@dataclass(frozen=True)
class Finding:
    """A conclusion tested with one number of labels."""

    ours: Comparison
    paper: float  # the same sum of the paper's averages

    @property
    def holds(self) -> Holds:
        """Whether the conclusion holds here."""
        verdict = self.ours.verdict
        if verdict == "higher":
            return "holds"
        return "reversed" if verdict == "lower" else verdict

    @property
    def evidence(self) -> str:
        """The sum, p, and the paper's sum.

        >>> Finding(t_test([0.3, 0.1, 0.2]), 0.25).evidence
        '+0.20 ± 0.06 (p = 0.074), paper +0.25'
        """
        paper = f"paper {signed(self.paper, self.ours.se)}"
        if self.ours.difference is None:
            return paper
        p = "" if self.ours.p_adjusted is None else f" ({chance(self.ours.p_adjusted)})"
        return f"{difference(self.ours.difference, self.ours.se)}{p}, {paper}"


@dataclass(frozen=True)
class Conclusion:
    """A conclusion of the paper, tested with each number of labels that the paper and the table have."""

    claim: Claim
    findings: Mapping[int, Finding]  # by number of labels


def summary(found: Sequence[Conclusion]) -> list[str]:
    """Count for each number of labels the conclusions that hold.

    >>> summary([Conclusion(CLAIMS[0], {100: Finding(t_test([0.3, 0.31, 0.32]), 0.25)})])
    ['100 labels: of 1 conclusion of the paper, 1 holds.']
    """
    labels = dict.fromkeys(count for conclusion in found for count in conclusion.findings)
    lines = []
    for count in labels:
        results = Counter(one.findings[count].holds for one in found if count in one.findings)
        parts = [
            f"{results[kind]} {word if results[kind] == 1 else words}"
            for kind, word, words in _COUNTED
            if results[kind]
        ]
        all_of_them = f"{results.total()} conclusion{'' if results.total() == 1 else 's'}"
        lines.append(f"{count:,} labels: of {all_of_them} of the paper, {', '.join(parts)}.")
    return lines


def conclusions(table: Table) -> tuple[Conclusion, ...]:
    """Test the paper's conclusions on a table; none if the paper has no cell of it, or it lacks the models.

    >>> from laddernet.report.tables import Result, tabulate
    >>> errors = {"vanilla": (1.1, 1.2, 1.3), "gaussian": (1.0, 1.1, 1.1)}
    >>> runs = [Result(model, 100, seed, error) for model in errors for seed, error in enumerate(errors[model])]
    >>> (found,) = conclusions(tabulate(runs, data="mnist"))
    >>> found.claim.statement, found.findings[100].holds, round(found.findings[100].ours.difference, 3)
    ('Gaussian is better than vanilla', 'no clear difference', 0.133)
    """
    if not table.is_of_paper:
        return ()
    labels = [count for count in table.labels if any(count == known for _, known in PAPER)]
    columns = {}
    for place, count in enumerate(labels):
        fewer = labels[place - 1] if place else None
        columns[count] = _column(table, count, fewer)
    found = (
        Conclusion(
            claim, {count: column[claim.statement] for count, column in columns.items() if claim.statement in column}
        )
        for claim in CLAIMS
    )
    return tuple(conclusion for conclusion in found if conclusion.findings)


def _column(table: Table, labels: int, fewer: int | None) -> dict[str, Finding]:
    """Test the conclusions with one number of labels; ``fewer`` is the next smaller one."""
    models = {row.model for row in table.rows}
    tests, papers = {}, {}
    for claim in CLAIMS:
        if claim.shrinks and fewer is None:
            continue
        terms = _terms(claim, labels, fewer)
        if not {model for model, _ in terms} <= models:
            continue
        runs = [table.errors.get(key, {}) for key in terms]
        seeds = sorted(set.intersection(*map(set, runs)))
        sums = [sum(w * errors[seed] for w, errors in zip(terms.values(), runs, strict=True)) for seed in seeds]
        tests[claim.statement] = t_test(sums)
        papers[claim.statement] = sum(weight * PAPER[key][0] for key, weight in terms.items())
    return {statement: Finding(test, papers[statement]) for statement, test in holm(tests).items()}


def _terms(claim: Claim, labels: int, fewer: int | None) -> dict[tuple[str, int], float]:
    """Return the weight of each cell in the sum."""
    terms = {(_member(model, labels), labels): weight for model, weight in claim.weights.items()}
    if not claim.shrinks or fewer is None:
        return terms
    before = {(_member(model, fewer), fewer): weight for model, weight in claim.weights.items()}
    return before | {key: -weight for key, weight in terms.items()}


def _member(model: str, labels: int) -> str:
    """Return a model, or of a family the member with the paper's lowest error.

    >>> _member("AMLP", 100), _member("AMLP", 1000), _member("vanilla", 100)
    ('amlp-2-2-2', 'amlp-4', 'vanilla')
    """
    if model not in _FAMILIES:
        return model
    members = [name for name, count in PAPER if count == labels and name.startswith(_FAMILIES[model])]
    return min(members, key=lambda name: PAPER[name, labels][0])
