"""Open a table in a CSV, Parquet or NPZ file. It is read a part at a time, so a file may be larger than memory."""

import stat
from pathlib import Path

from laddernet.errors import InputError
from laddernet.files import reading, require_regular
from laddernet.table.read_csv import STDIN, open_csv
from laddernet.table.read_npz import open_npz
from laddernet.table.read_parquet import open_parquet
from laddernet.table.table import Table

_OTHERS = {
    b"\x1f\x8b": "compressed with gzip; give the file that gunzip makes of it",
    b"\x93NUM": "a single NumPy array; save it with its classes, by np.savez(path, X=X, y=y)",
}


def open_table(path: str | Path, *, delimiter: str | None = None, encoding: str | None = None) -> Table:
    """Open a CSV, Parquet or NPZ file, whose format is detected by its first bytes. ``-`` is CSV on standard input."""
    if str(path) == STDIN:
        return open_csv(path, delimiter, encoding)
    with reading(path):
        mode = Path(path).stat().st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        raise InputError(f"{path} can be read only once; give a file, or '-' for standard input.")
    require_regular(path)
    with reading(path), Path(path).open("rb") as file:
        start = file.read(4)
    for beginning, what in _OTHERS.items():
        if start.startswith(beginning):
            raise InputError(f"{path} is {what}.")
    if start == b"PAR1":
        return open_parquet(Path(path))
    if Path(path).suffix == ".parquet":
        raise InputError(f"{path} is not a Parquet file; write it anew, or give it another name if it is CSV.")
    if start in (b"PK\x03\x04", b"PK\x05\x06"):
        return open_npz(Path(path))
    return open_csv(path, delimiter, encoding)
