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
_FAMILIES = {"MLP": "mlp-", "AMLP": "amlp-"}
_WITH_DECODER = [model for model, what in MODELS.items() if what.combinator is not None and model != "vanilla"]


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper, and the sum of errors that is above 0 if it holds."""

    statement: str
    test: str  # the sum in words
    weights: Weights
    shrinks: bool = False  # the sum is lower than with the next smaller number of labels


def _higher(statement: str, model: str, than: str) -> Claim:
    """Return the claim that the error of one model is higher than that of another."""
    return Claim(statement, f"{model} − {than}", {model: 1, than: -1})


def _shrinks(statement: str, model: str, than: str) -> Claim:
    """Return the claim that this difference is lower with more labels."""
    return Claim(statement, f"({model} − {than}) with fewer labels − the same", {model: 1, than: -1}, shrinks=True)


CLAIMS = (
    _higher("Lateral connections lower the error", "no-lateral", "first-noise-recons"),
    Claim(
        "Lateral connections matter more than noise and reconstruction above the input together",
        "(no-lateral − first-noise-recons) − (first-noise-recons − vanilla)",
        {"no-lateral": 1, "first-noise-recons": -2, "vanilla": 1},
    ),
    _higher("Noise lowers the error of a network without a decoder", "baseline", "baseline-noise"),
    _higher("Noise above the input lowers the error", "first-noise", "vanilla"),
    _higher("Reconstruction above the input lowers the error", "first-recons", "vanilla"),
    _higher("The sigmoid lowers the error", "no-sig", "vanilla"),
    _higher("The multiplicative term lowers the error", "no-mult", "vanilla"),
    _higher("The multiplicative term matters more than the sigmoid", "no-mult", "no-sig"),
    _higher("Random initial values are worse", "rand-init", "vanilla"),
    _higher("Reversed initial values are worse still", "rev-init", "rand-init"),
    _higher("Gaussian is better than vanilla", "vanilla", "gaussian"),
    _higher("GatedGauss is worse than Gaussian", "gated-gauss", "gaussian"),
    _higher("AMLP is better than vanilla", "vanilla", "AMLP"),
    _higher("AMLP is better than MLP", "MLP", "AMLP"),
    _shrinks("Lateral connections matter less with more labels", "no-lateral", "first-noise-recons"),
    _shrinks("Reconstruction above the input matters less with more labels", "first-recons", "vanilla"),
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
    columns = {count: _column(table, count, fewer) for fewer, count in zip([None, *labels], labels, strict=False)}
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
    signs = {labels: 1} if not claim.shrinks or fewer is None else {fewer: 1, labels: -1}
    return {
        (_member(model, count), count): sign * weight
        for count, sign in signs.items()
        for model, weight in claim.weights.items()
    }


def _member(model: str, labels: int) -> str:
    """Return a model, or of a family the member with the paper's lowest error.

    >>> _member("AMLP", 100), _member("AMLP", 1000), _member("vanilla", 100)
    ('amlp-2-2-2', 'amlp-4', 'vanilla')
    """
    if model not in _FAMILIES:
        return model
    members = [name for name, count in PAPER if count == labels and name.startswith(_FAMILIES[model])]
    return min(members, key=lambda name: PAPER[name, labels][0])
