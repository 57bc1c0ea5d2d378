"""Numbers in a column of pyarrow's, parsed as a whole: a tenth of the time of parsing each distinct text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from laddernet.table.cells import MISSING

_MOST_DIGITS = 15  # a float may not hold more


@dataclass(frozen=True)
class PlainNumbers:
    """A column of which each cell is missing or a number that Python reads, with a point if any and without spaces."""

    values: np.ndarray  # NaN where missing
    texts: Any  # of the numbers, a `pyarrow.ChunkedArray`

    @property
    def long(self) -> bool:
        """Whether a number may lose digits as a float."""
        from pyarrow import compute

        return len(self.texts) > 0 and bool(compute.max(compute.binary_length(self.texts)).as_py() > _MOST_DIGITS)

    def like(self, pattern: str) -> np.ndarray:
        """Return for each text whether all of it matches a regular expression."""
        from pyarrow import compute

        return np.asarray(compute.match_substring_regex(self.texts, f"^(?:{pattern})$"), bool)

    def first(self, count: int, among: np.ndarray | None = None) -> list[str]:
        """Return the first distinct texts, of all or of those that are chosen."""
        chosen = self.texts if among is None else self.texts.filter(among)
        few = chosen[: 100 * count].unique()  # mostly they are among the first rows
        texts: list[str] = (few if len(few) >= count else chosen.unique())[:count].to_pylist()
        return texts


def plain_numbers(cells: pd.Series) -> PlainNumbers | None:
    """Parse a column; return None if a cell is not such a number, or the column is not one of texts of pyarrow's.

    >>> import pyarrow
    >>> column = pd.Series(["1.5", "NA", "2e3"], dtype=pd.ArrowDtype(pyarrow.string()))
    >>> plain_numbers(column).values.tolist(), plain_numbers(column + " kg")
    ([1.5, nan, 2000.0], None)
    """
    if str(cells.dtype) != "string[pyarrow]":
        return None
    import pyarrow
    from pyarrow import compute

    given = pyarrow.array(cells.array)
    texts = compute.if_else(compute.is_in(given, pyarrow.array(sorted(MISSING))), None, given)
    try:
        values = texts.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid:
        return None
    if np.isnan(values).sum() != texts.null_count:  # as of "NAN", which is no number
        return None
    return PlainNumbers(values, texts.drop_null())
