"""The training data, columns and network of a model, for `laddernet inspect`."""

from datetime import UTC, datetime
from typing import Any

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.classifier.members import LADDER
from laddernet.table.columns import Column
from laddernet.table.model import TableModel
from laddernet.table.table import listed
from laddernet.table.transformer import state


def describe(model: TableModel) -> dict[str, Any]:
    """Describe a model in values for JSON."""
    arrays, learned = state(model.columns, model.transformer)
    filled = zip(model.columns, arrays["medians"], arrays["missing"], strict=True)
    return {
        "version": model.version,
        "target": model.target,
        "unlabeled": model.unlabeled,
        "rows": model.rows,
        "labels": model.labels,
        "columns": [
            {"name": column.name, "kind": column.kind, "does": _does(column, learned, float(median), bool(missing))}
            for column, median, missing in filled
        ],
        "dropped": model.dropped,
        "method": model.method,
        "members": _members(model),
        "network": _network(model.network),
        "estimate": model.estimate and model.estimate.about(model.classes),
    }


def _members(model: TableModel) -> list[str]:
    """Return the methods whose probabilities the model takes the mean of; a file of an older version has others."""
    held = model.classifier
    return list(held.members_.models) if isinstance(held, FewLabelClassifier) else [LADDER]


def _network(ladder: LadderClassifier | None) -> dict[str, Any] | None:
    """Describe the Ladder Network; None if the method has none."""
    if ladder is None:
        return None
    fitted, about = ladder.state()
    parameters = {name: held.get("value") for name, held in about["parameters"].items()}
    names = ("batch_size", "learning_rate", "random_state")
    layers = sum(name.startswith("networks.0.encoder.") and name.endswith(".W") for name in fitted)
    shapes = [fitted[f"networks.0.encoder.{l}.W"].shape for l in range(layers)]  # a file has its arrays in any order
    deep = sum(f"networks.{number}.encoder.1.W" in fitted for number in range(about["networks"]))
    linear = round(about["shares"][-1] / (sum(about["shares"]) or 1.0), 9)  # all may be sharpened by one factor
    steps = round(about["n_steps"] / about["networks"])  # of each network, as --max-steps counts them
    settings = {"steps": steps, "noise": about["noise"], "recon_weights": about["recon_weights"]}
    return {
        "model": str(ladder.model),
        "networks": deep,
        "linear_share": linear if deep < about["networks"] else 0.0,
        "sizes": [shapes[0][0], *(units for _, units in shapes)],
        "parameters": sum(a.size for name, a in fitted.items() if ".encoder." in name or ".decoder." in name),
        "settings": settings | {name: parameters[name] for name in names},
    }


def _does(column: Column, learned: dict[str, Any], median: float, missing: bool) -> str:
    """Describe the inputs that a column becomes."""
    if column.kind == "category":
        known = learned["categories"][column.name]
        pooled = " and one for rare and new ones" if known["pooled"] else "; new ones match none of them"
        return f"an input for each of {listed(known['kept'], 6)}{pooled}"
    if column.kind in ("date", "time"):
        since, median_day = (
            str(datetime.fromtimestamp(s, UTC).date()) for s in (learned["since"][column.name], median)
        )
        hour = ", hour" if column.kind == "time" else ""
        done, fill = f"year, month, weekday, day of the year, days since {since}{hour}", median_day
    else:
        done, fill = ("1 for yes, 0 for no" if column.kind == "boolean" else "the number"), f"{median:g}"
    return f"{done}; {fill} where missing" + (", and an input that indicates it" if missing else "")
