"""Compare labels for the rows that `laddernet suggest` chooses with labels for random rows.

    python benchmarks/suggest.py [set ...]

Each set starts with two labels per class (one if it has more than five classes). Twenty more labels are added in both
ways, and the classifier is trained again. Errors on test rows are means over five draws of the first labels.
"""

import sys
import warnings

import few_labels_data as data
import numpy as np
from few_labels_methods import draw_labels

from laddernet import LadderClassifier
from laddernet.table.suggest import rank
from laddernet.training.programs import keep_compiled_programs

SETS = ("breast-cancer", "digits", "wine", "vehicle", "segment", "satellite", "house-votes", "pima")
DRAWS, COUNT = 5, 20


def errors(parts: data.Parts, draw: int) -> tuple[float, float, float]:
    """Return the test errors before, with labels of random rows, and with labels of suggested rows."""
    few = 2 if len(np.unique(parts.y_train)) <= 5 else 1
    first = draw_labels(parts.y_train, few, draw)
    unlabelled = np.flatnonzero(first < 0)

    def trained(more: np.ndarray) -> tuple[LadderClassifier, float]:
        y = first.copy()
        y[more] = parts.y_train[more]
        classifier = LadderClassifier(random_state=draw).fit(parts.x_train, y)
        return classifier, 100 * float(np.mean(classifier.predict(parts.x_test) != parts.y_test))

    begun, before = trained(unlabelled[:0])
    at_random = np.random.default_rng(draw).choice(unlabelled, COUNT, replace=False)
    places = begun.transform(parts.x_train)
    suggested = unlabelled[rank(places[unlabelled], places[first >= 0], COUNT)[0]]
    return before, trained(at_random)[1], trained(suggested)[1]


def main() -> int:
    warnings.simplefilter("ignore")
    keep_compiled_programs()
    print(f"| | before | {COUNT} more at random | {COUNT} more suggested |\n|---|---|---|---|", flush=True)
    for name in sys.argv[1:] or SETS:
        parts = data.load(name)
        found = np.array([errors(parts, draw) for draw in range(DRAWS)])
        print(f"| {name} | {' | '.join(f'{error:.1f} %' for error in found.mean(axis=0))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
