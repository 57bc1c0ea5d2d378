from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clinic import clinic

from laddernet.table.columns import IDENTIFIER
from laddernet.table.rows import likely_target, read_rows
from laddernet.table.table import Table


def test_cells_that_are_no_numbers_and_days_that_could_be_months_are_told(tmp_path: Path) -> None:
    frame = clinic()
    frame["dose"] = np.where(np.arange(len(frame)) == 5, "much", np.arange(len(frame)) / 2)
    frame["due"] = ["01/02/2024", "03/04/2024"] * (len(frame) // 2)
    frame["weight"] = np.where(np.arange(len(frame)) % 10 == 5, "-", np.arange(len(frame)) % 30)
    assert read_rows(Table.of(frame), "result").notices == [
        "dose: 1 cell is not a number ('much') and counts as missing",
        "due: day and month cannot be told apart; read as %m/%d/%Y",
        "weight: 90% of the cells are numbers; because of '-' they are categories",
    ]
    frame["result"] = np.where(frame["result"].isna(), "-1", frame["result"])
    notice = "result: -1 is taken for a class; if it marks rows without a label, give --unlabeled -1"
    assert read_rows(Table.of(frame), "result").notices[-1] == notice


def test_inputs_are_what_pandas_computes_by_hand() -> None:
    frame = clinic()
    frame["seen"] = pd.Series(pd.to_datetime(frame["admitted"]) + pd.Timedelta(hours=6, minutes=30)).astype(str)
    frame.loc[3, "seen"] = ""
    frame["ward"] = frame["ward"].where(frame.index != 5, "lost").where(frame.index != 6, None)
    rows = read_rows(Table.of(frame), "result")
    admitted, seen = pd.to_datetime(frame["admitted"]), pd.to_datetime(frame["seen"], errors="coerce")
    filled = seen.fillna(seen.quantile(0.5))

    def parts(days: "pd.Series[Any]", first: Any) -> list[Any]:
        since = (days - first) / pd.Timedelta(days=1)
        return [days.dt.year, days.dt.month, days.dt.day_of_week, days.dt.day_of_year, since]

    expected = [
        frame["age"].fillna(frame["age"].median()),
        frame["smoker"] == "yes",
        frame["age"].isna(),
        *parts(admitted, admitted.min()),
        *parts(filled, seen.min()),
        filled.dt.hour + filled.dt.minute / 60,
        seen.isna(),
        *(frame["ward"] == ward for ward in ("east", "north", "süd, 2")),
        ~frame["ward"].isin(["east", "north", "süd, 2"]),  # 'lost' and the missing one, both rare
    ]
    assert np.allclose(rows.X, np.stack(expected, axis=1).astype(float), rtol=1e-12, atol=1e-9)
    assert rows.dropped == {"patient": IDENTIFIER, "hospital": "one value only"}


def test_a_column_with_hardly_two_equal_words_is_left_out() -> None:
    frame = clinic().assign(name=[f"n{i % 230}" for i in range(240)])
    assert read_rows(Table.of(frame), "result").dropped["name"] == "nearly every value is different"
    assert "name" in [column.name for column in read_rows(Table.of(frame), "result", use=["name"]).columns]


def test_names_that_differ_only_in_case_or_spaces_are_told() -> None:
    frame = clinic().assign(result=clinic()["result"].where(clinic().index != 3, "Ill"))
    frame["ward"] = frame["ward"].where(frame.index != 5, "North").where(frame.index != 9, "  north ")
    notices = read_rows(Table.of(frame), "result").notices
    assert notices == [
        "result: 'Ill' and 'ill' are two classes, and differ only in case or spaces",
        "ward: 'north' and 'North' are two categories, and differ only in case or spaces",
    ]
    assert read_rows(Table.of(clinic()), "result").notices == []


@pytest.mark.parametrize(
    ("columns", "target"),
    [
        ({"Label": ["x", "y", "x", "y"], "b": ["u", "u", "v", ""]}, "Label"),
        ({"a": ["u", "", "v", "u"], "found": ["x", "", "", "y"]}, "found"),
        ({"a": ["u", "u", "v", "v"], "b": ["x", "y", "x", "y"]}, None),
        ({"a": ["", "", "", ""]}, None),
    ],
)
def test_the_target_is_guessed_by_its_name_or_by_its_empty_cells(
    columns: dict[str, list[str]], target: str | None
) -> None:
    assert likely_target(Table.of(pd.DataFrame(columns))) == target
