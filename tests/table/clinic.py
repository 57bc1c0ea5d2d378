"""A table with a column of each kind, which the tests of tables and their commands share."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy

from laddernet.table.read import open_table
from laddernet.table.table import Table

# One network for all tests, and tables with the same inputs and classes, so that it is compiled once.
NETWORK: dict[str, Any] = {"hidden": [8], "max_steps": 64, "n_networks": 2, "random_state": 1}


OPTIONS = ("--hidden", "8", "--max-steps", "64", "--networks", "2", "--seed", "1")


# A table that commands refuse before they train.
SMALL = "a,label\n1,x\n2,y\n3,x\n4,y\n5,x\n"


def clinic(rows: int = 240, labelled: int = 60, seed: int = 0) -> pd.DataFrame:
    """A table with a column of each kind; whether one is ill shows in age, ward, smoking and the day."""
    rng = np.random.default_rng(seed)
    ill = rng.integers(0, 2, rows)
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 200, rows) + 150 * ill, unit="D")
    frame = pd.DataFrame(
        {
            "patient": np.arange(rows) + 1000,
            "age": (40 + 25 * ill + rng.normal(0, 5, rows)).round(1),
            "ward": rng.choice(["north", "süd, 2", "east"], rows),
            "smoker": np.where(rng.random(rows) < 0.2 + 0.6 * ill, "yes", "no"),
            "admitted": days.strftime("%Y-%m-%d"),
            "hospital": "General",
            "result": np.where(ill == 1, "ill", "well"),
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[labelled:, "result"] = None
    return frame


def rows_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def by_hand(frame: pd.DataFrame) -> np.ndarray:
    """The inputs of the clinic's columns, made with pandas alone."""
    days = pd.to_datetime(frame["admitted"])
    known = clinic()
    first = pd.to_datetime(known["admitted"]).min()
    wards = [(frame["ward"] == ward) for ward in ("east", "north", "süd, 2")]
    columns = [
        frame["age"].fillna(known["age"].median()),
        frame["smoker"] == "yes",
        frame["age"].isna(),
        *(days.dt.year, days.dt.month, days.dt.day_of_week, days.dt.day_of_year, (days - first).dt.days),
        *wards,
    ]
    return np.stack(columns, axis=1).astype(float)


def array(folder: Path, y: Any) -> Table:
    np.savez(folder / "t.npz", X=np.random.default_rng(0).normal(size=(len(y), 2)), y=np.array(y))
    return open_table(folder / "t.npz")


def foreign(model: bytes) -> bytes:
    return safetensors.numpy.save({"a": np.zeros(3)})
