"""Read NPZ files as tables."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from laddernet.data import npz
from laddernet.errors import InputError
from laddernet.table.table import Table, require_few, rows_of_a_part

_PART_BYTES = 1 << 26  # bytes of a part of the arrays


def open_npz(path: Path) -> Table:
    """Open an NPZ file.

    The columns of ``X`` are named x0, x1 and so on; other arrays with one value per row are columns of their own name.
    """
    arrays = npz.headers(path)
    if not arrays:
        raise InputError(f"{path} is a zip file, but not NPZ; save the table as CSV, Parquet or NPZ.")
    X = arrays.pop("X", None)
    if X is None or not X.shape:
        raise InputError(f"{path} has no array X with a row for each example; save it with np.savez(path, X=X, y=y).")
    if not X.width:
        raise InputError(f"{path}: X has no columns (its shape is {X.shape}); give one or more.")
    refused = {}
    for name, array in arrays.items():
        if not array.shape or array.shape[0] != X.shape[0]:
            rows = array.shape[0] if array.shape else 1
            refused[name] = f"{name} has {rows:,} rows and X has {X.shape[0]:,}; give both the same number."
        elif array.width != 1:
            refused[name] = f"{name} has the shape {array.shape}; give one value for each row."
        elif array.objection:
            refused[name] = f"{name} {array.objection}."
    if X.objection:
        raise InputError(f"{path}: X {X.objection}.")
    require_few(X.width, f"{path}: X")
    named = [f"x{place}" for place in range(X.width)]
    others = [name for name in arrays if name not in refused and name not in set(named)]

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        wanted = set(names)
        places = [place for place, name in enumerate(named) if name in wanted]
        read = [X, *(arrays[name] for name in others if name in wanted)]
        widest = max(array.width * array.dtype.itemsize for array in read)
        step = min(rows_of_a_part(X.width), max(1, _PART_BYTES // max(1, widest)))
        with npz.opened(path) as archive:
            sources = {name: npz.parts(archive, name, step) for name in others if name in wanted}
            rows = npz.parts(archive, "X", step) if places else None
            for first in range(0, X.shape[0], step):
                index = pd.RangeIndex(first + 1, min(first + step, X.shape[0]) + 1)
                frame = pd.DataFrame(index=index)
                if rows is not None:
                    x = next(rows).reshape(len(index), -1)
                    x = x if len(places) == X.width else x[:, places]
                    frame = pd.DataFrame(x, index=index, columns=[named[place] for place in places])
                for name, source in sources.items():
                    frame[name] = next(source).reshape(-1)
                yield frame[list(names)]

    return Table(str(path), [*named, *others], parts, positional=X.width, refused=refused)
