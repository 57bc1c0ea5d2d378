"""The two halves of the sets: one to choose by, one to report.

A default or a rule is chosen by the sets of the half "choose". Figures about the classifier come from the half
"report", which is not used for any choice.
"""

from functools import cache
from hashlib import sha256

import few_labels_data as data
import numpy as np

HALVES = ("choose", "report")

# Sets with categories: at least a tenth of the columns that vary hold two values (`holds_categories`). They are listed
# because the halves must not depend on which packages a machine can fetch.
# fmt: off
_CATEGORICAL = frozenset((
    "attrition", "biopsy", "breast", "chess", "contraceptive", "credit-data", "dna", "german", "house-votes",
    "hpc-data", "led7digit", "lending-club", "mlc-churn", "monk-2", "mushroom", "penguins", "promotergene", "saheart",
    "soybean", "stackoverflow", "tae", "tic-tac-toe", "ticdata", "titanic", "vowel", "wa-churn", "zoo",
))
# fmt: on


def categorical(name: str) -> bool:
    """Return whether a set has columns of categories."""
    return name in _CATEGORICAL


def holds_categories(parts: data.Parts) -> bool:
    """Measure what `_CATEGORICAL` lists."""
    values = np.array([len(np.unique(column)) for column in parts.x_train.T])
    return bool(np.mean(values[values > 1] == 2) >= 0.1)


def half(name: str) -> str:
    """Return the half of a set: every other one in the order of the names' hashes, of those of its kind.

    >>> half("dna"), half("german")
    ('choose', 'report')
    """
    return _halves()[name]


@cache
def _halves() -> dict[str, str]:
    found = {}
    for kind in (False, True):
        names = [name for name in data.SETS if categorical(name) == kind]
        names.sort(key=lambda name: sha256(name.encode()).digest())
        found |= {name: HALVES[place % 2] for place, name in enumerate(names)}
    return found
