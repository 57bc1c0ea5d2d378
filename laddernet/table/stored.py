"""What a model's file holds besides arrays, checked: types, the classifier and the estimate."""

from typing import Any

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.inference import modelfile

Classifier = LadderClassifier | FewLabelClassifier


def restored_classifier(arrays: modelfile.Arrays, about: dict[str, Any]) -> Classifier:
    """Make the classifier of a file; one that is not a Ladder Network alone names its method."""
    kind = FewLabelClassifier if "method" in about else LadderClassifier
    return kind.from_state(arrays, about)


def check_types(about: modelfile.About) -> None:
    """Refuse a file that holds another type where the commands take a text or a number."""
    texts_in = {
        "target": [about["target"]],
        "version": [about["version"]],
        "unlabeled": [about["unlabeled"]] if about.get("unlabeled") is not None else [],
        "classes": [*about["classes"], *about["labels"]],
        "dropped": [*about["dropped"], *about["dropped"].values()],
        "columns": [column[field] for column in about["columns"] for field in ("name", "kind")],
    }
    numbers_in = {"rows": [about["rows"]], "positional": [about["positional"]], "labels": about["labels"].values()}
    for values, kind in ((texts_in, str), (numbers_in, int)):
        for name, held in values.items():
            if wrong := [value for value in held if type(value) is not kind]:
                raise TypeError(f"{name} holds {str(wrong[0])[:80]!r}, not {'a text' if kind is str else 'a number'}")
    if list(about["labels"]) != about["classes"] or len(about["classes"]) != len(
        about["classifier"]["classes"]["values"]
    ):
        raise ValueError("its classes are not those of its classifier")
