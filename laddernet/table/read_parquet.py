"""Read Parquet with pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from laddernet.errors import InputError, packages
from laddernet.table.table import Table, require_few, rows_of_a_part, unique_names
from laddernet.text import one_line


def open_parquet(path: Path) -> Table:
    """Open a Parquet file."""
    with packages(f"{path}, a Parquet file,", ", or save the table as CSV"):
        import pyarrow
        import pyarrow.parquet

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            # pyarrow refuses a file name with a stray byte, so it gets an open file.
            with path.open("rb") as raw, pyarrow.parquet.ParquetFile(raw) as file:
                yield file
        except (pyarrow.ArrowException, OSError, ValueError) as error:  # ValueError: names that are not text
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a whole Parquet file ({one_line(error)}); write it anew.") from error

    with opened() as file:
        require_few(len(file.schema_arrow.names), path)
        columns = unique_names(list(file.schema_arrow.names), str(path))
    # Integers stay integers beside a missing cell: as float64, long keys would lose digits.
    names_of_types = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    whole = {getattr(pyarrow, name.lower())(): getattr(pd, f"{name}Dtype")() for name in names_of_types}

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        first = 1
        with opened() as file:
            for batch in file.iter_batches(rows_of_a_part(len(columns)), columns=list(names)):
                batch.validate(full=True)  # text that is not UTF-8 would fail only where it is used
                plain = batch.replace_schema_metadata(None)  # pyarrow parses the metadata even if it is to be ignored
                frame = plain.to_pandas(ignore_metadata=True, types_mapper=whole.get)[list(names)]
                yield frame.set_axis(pd.RangeIndex(first, first + len(frame)))
                first += len(frame)

    return Table(str(path), columns, parts)
