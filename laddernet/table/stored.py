"""The content of a model's file: arrays, and all else in values for JSON."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.errors import InputError
from laddernet.inference.modelfile import About, Arrays
from laddernet.table.columns import Column
from laddernet.table.estimate import Estimate
from laddernet.table.transformer import restore, state

if TYPE_CHECKING:
    from laddernet.table.model import TableModel

Classifier = LadderClassifier | FewLabelClassifier

_PREFIX = "classifier/"
_MOST_RARE = 10  # the most rows that a rare category may have


def content(model: "TableModel") -> tuple[Arrays, About]:
    """Return the content of a model's file."""
    arrays, learned = state(model.columns, model.transformer)
    fitted, about = model.classifier.state()
    return arrays | {_PREFIX + name: array for name, array in fitted.items()}, {
        "target": model.target,
        "columns": [asdict(column) for column in model.columns],
        "dropped": model.dropped,
        "positional": model.positional,
        "learned": learned,
        "classes": list(model.classes),
        "labels": model.labels,
        "rows": model.rows,
        "version": model.version,
        "estimate": None if model.estimate is None else asdict(model.estimate),
        "unlabeled": model.unlabeled,
        "classifier": about,
    }


def restored(arrays: Arrays, about: About) -> dict[str, Any]:
    """Return the attributes of the model whose file has this content."""
    rare = about["learned"]["rare"]
    if type(rare) is not int or not 0 < rare <= _MOST_RARE:
        raise InputError(f"The model's limit of rare categories is {rare} rows; save the model anew.")
    _check_types(about)
    columns = tuple(Column(**column) for column in about["columns"])
    fitted = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    # The file of a Ladder Network alone names no method.
    kind = FewLabelClassifier if "method" in about["classifier"] else LadderClassifier
    return {name: about[name] for name in ("target", "dropped", "positional", "labels", "rows", "version")} | {
        "columns": columns,
        "transformer": restore(columns, arrays, about["learned"]),
        "classifier": kind.from_state(fitted, about["classifier"]),
        "classes": tuple(about["classes"]),
        "estimate": about["estimate"] and Estimate.of(about["estimate"], about["labels"]),
        "unlabeled": about.get("unlabeled"),  # absent in older files
    }


def _check_types(about: About) -> None:
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
    codes = about["classifier"]["classes"]["values"]
    if list(about["labels"]) != about["classes"] or len(about["classes"]) != len(codes):
        raise ValueError("its classes are not those of its classifier")
