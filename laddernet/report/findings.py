"""The findings of a study: a few sentences for each number of labels."""

from collections.abc import Callable, Sequence

from laddernet.report.comparisons import FEWEST
from laddernet.report.numbers import value
from laddernet.report.tables import Cell, Table

_NAMED = 6  # models that are named; of more, the number is given

Named = Callable[[str], str]


def findings(table: Table, named: Named = str) -> list[str]:
    """Name for each number of labels the models with the lowest error; ``named`` writes the name of a model.

    >>> from laddernet.report.tables import Result, tabulate
    >>> errors = {"vanilla": (1.1, 1.2, 1.3), "gaussian": (1.0, 1.2, 1.2), "linear": (5.0, 5.2, 5.1)}
    >>> runs = [Result(model, 100, seed, error) for model in errors for seed, error in enumerate(errors[model])]
    >>> print(*findings(tabulate(runs, data="mnist")))
    100 labels: gaussian has the lowest mean error, 1.13 ± 0.07 %. Not distinguishable from it: vanilla. Worse: linear.
    """
    columns = ({row.model: row.cells[column] for row in table.rows} for column in range(len(table.labels)))
    return [
        f"{count:,} labels: {' '.join(_sentences(column, named))}"
        for count, column in zip(table.labels, columns, strict=True)
    ]


def _sentences(column: dict[str, Cell], named: Named) -> list[str]:
    best = [model for model, cell in column.items() if cell.best]
    if not best:
        return ["No cell is complete yet."]
    lowest = column[best[0]]
    first = f"{_listed(best, named)} {'has' if len(best) == 1 else 'have'} the lowest mean error, "
    first += f"{value(lowest.aer, lowest.se)} %" + (" (one run)." if lowest.n == 1 else ".")
    tests = {model: cell.to_best.verdict for model, cell in column.items() if cell.to_best and not cell.best}
    if tests and set(tests.values()) == {"too few seeds"}:
        return [first, f"Too few seeds to compare the models: a test needs {FEWEST} that two models have in common."]
    kinds = {
        "Not distinguishable from it": [model for model in tests if column[model].leading],
        "Worse": [model for model, verdict in tests.items() if verdict == "higher"],
        "Too few seeds for a test": [model for model, verdict in tests.items() if verdict == "too few seeds"],
        "The same difference with every seed, so no test": [
            m for m, verdict in tests.items() if verdict == "no spread"
        ],
    }
    return [first, *(f"{kind}: {_listed(models, named)}." for kind, models in kinds.items() if models)]


def _listed(models: Sequence[str], named: Named) -> str:
    return ", ".join(map(named, models)) if len(models) <= _NAMED else f"{len(models)} models"
