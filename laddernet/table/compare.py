"""Two models on one table: the rows on which they agree, and the errors of both."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binomtest

from laddernet.classifier.curve import error_interval
from laddernet.table.labels import labels_of, mark_of, plain
from laddernet.table.model import TableModel
from laddernet.table.table import Table

_CHANCE = 0.05  # significance level: a difference with a lower p-value is clear


@dataclass
class Comparison:
    """Counts over the rows of a table, for a first and a second model."""

    rows: int = 0
    agree: int = 0
    judged: int = 0  # rows with a label
    wrong: list[int] = field(default_factory=lambda: [0, 0])  # of each model
    only_right: list[int] = field(default_factory=lambda: [0, 0])  # rows that one model alone has right
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)  # the two classes of rows on which they differ

    @property
    def p_value(self) -> float:
        """The probability of such a difference if both were equally good (exact McNemar test)."""
        differ = sum(self.only_right)
        return float(binomtest(self.only_right[0], differ).pvalue) if differ else 1.0

    def about(self) -> dict[str, Any]:
        """Return all figures as values for JSON."""
        models = [
            {"wrong": wrong, "error": 100 * wrong / self.judged, "interval": list(error_interval(wrong, self.judged))}
            for wrong in (self.wrong if self.judged else ())
        ]
        changes = [{"first": a, "second": b, "rows": count} for (a, b), count in self.changes.most_common()]
        found = {"rows": self.rows, "agree": self.agree, "judged": self.judged, "models": models}
        return found | {"only_right": self.only_right, "p_value": self.p_value, "changes": changes}

    def sentences(self, names: Sequence[str]) -> list[str]:
        """Write the figures as sentences.

        >>> found = Comparison(rows=40, agree=30, judged=20, wrong=[9, 1], only_right=[0, 8])
        >>> for sentence in found.sentences(["a", "b"]):
        ...     print(sentence)
        The models agree on 30 of 40 rows (75.0 %).
        a: 9 of 20 labelled rows wrong, 45.0 % (90 % interval 25.9–65.3 %).
        b: 1 of 20 labelled rows wrong, 5.0 % (90 % interval 0.3–21.6 %).
        Only a is right on 0 rows, only b on 8: b is better (p = 0.0078).
        """
        share = 100 * self.agree / self.rows if self.rows else 100.0
        out = [f"The models agree on {self.agree:,} of {self.rows:,} rows ({share:.1f} %)."]
        if not self.judged:
            return [*out, "No row has a label, so their errors are unknown."]
        for name, wrong in zip(names, self.wrong, strict=True):
            low, high = error_interval(wrong, self.judged)
            counted = f"{wrong:,} of {self.judged:,} labelled rows wrong, {100 * wrong / self.judged:.1f} %"
            out.append(f"{name}: {counted} (90 % interval {low:.1f}–{high:.1f} %).")
        better = names[int(self.only_right[1] > self.only_right[0])]
        result = f"{better} is better" if self.p_value < _CHANCE else "no clear difference"
        first, second = self.only_right
        counted = f"Only {names[0]} is right on {first:,} rows, only {names[1]} on {second:,}"
        return [*out, f"{counted}: {result} (p = {self.p_value:.2g})."]


def compare(
    models: Sequence[TableModel], table: Table, *, target: str | None = None, unlabeled: Any = None
) -> Comparison:
    """Predict each row with two models, and count; a row with a ``target`` shows which of them is right."""
    asked = models[0].unlabeled if unlabeled is None else unlabeled
    mark = mark_of(asked, table.positional or models[0].positional)
    used = dict.fromkeys(column.name for model in models for column in model.columns)
    known = {name for model in models for name in model.classes}
    found = Comparison()
    for part in table.parts(list(dict.fromkeys([*used, *([] if target is None else [target])]))):
        first, second = (model.predict(part) for model in models)
        found.rows += len(part)
        found.agree += int(np.count_nonzero(first == second))
        found.changes.update((a, b) for a, b in zip(first, second, strict=True) if a != b)
        if target is None:
            continue
        labels = [label if label in known else plain(label) for label in labels_of(part[target], mark)]
        truth = np.array(labels, object)
        judged = truth != ""
        right = [(predicted == truth) & judged for predicted in (first, second)]
        found.judged += int(judged.sum())
        for place, other in ((0, 1), (1, 0)):
            found.wrong[place] += int((judged & ~right[place]).sum())
            found.only_right[place] += int((right[place] & ~right[other]).sum())
    return found
