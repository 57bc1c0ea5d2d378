"""The classifier of a table's model: the Ladder Network alone, or another method."""

from typing import Any

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.inference import modelfile

Classifier = LadderClassifier | FewLabelClassifier


def restored_classifier(arrays: modelfile.Arrays, about: dict[str, Any]) -> Classifier:
    """Make the classifier of a file; one that is not a Ladder Network alone names its method."""
    kind = FewLabelClassifier if "method" in about else LadderClassifier
    return kind.from_state(arrays, about)
