import pandas as pd
import pytest

from laddernet.errors import InputError
from laddernet.table.table import Table


@pytest.mark.parametrize("asked", ["diagnosis", "DIAGNOSIS", "Diagnose", "final diagnosis", "diagnosis_final", "diagn"])
def test_a_column_that_is_absent_is_answered_with_the_one_that_was_meant(asked: str) -> None:
    table = Table.of(pd.DataFrame({"id": [1], "Diagnosis (final)": ["x"], "age": [3]}), "t")
    with pytest.raises(InputError, match=r"^t has no column .*; did you mean 'Diagnosis \(final\)'\?$"):
        table.require([asked])


def test_a_column_like_none_of_the_table_is_answered_with_its_columns() -> None:
    table = Table.of(pd.DataFrame({"id": [1], "age": [3]}), "t")
    with pytest.raises(InputError, match=r"^t has no column 'colour'; it has 'id', 'age'\.$"):
        table.require(["colour"])
