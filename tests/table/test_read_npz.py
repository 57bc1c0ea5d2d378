import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import laddernet, refused

from laddernet.errors import InputError
from laddernet.table.read import open_table


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_is_read_in_parts_with_images_as_rows(
    tmp_path: Path, save: Callable[..., None], order: Any, small_parts: None
) -> None:
    x = np.asarray(np.random.default_rng(0).normal(size=(70, 3, 4)), order=order)
    save(tmp_path / "t.npz", X=x, y=np.arange(70), names=np.array([f"n{i}" for i in range(70)]))
    table = open_table(tmp_path / "t.npz")
    parts = list(table.parts(["x11", "x0", "names"]))
    assert len(parts) == 9
    whole = pd.concat(parts)
    assert np.array_equal(whole[["x0", "x11"]], x.reshape(70, 12)[:, [0, 11]])
    assert whole["names"].tolist() == [f"n{i}" for i in range(70)]
    assert whole.index.tolist() == list(range(1, 71))


@pytest.mark.parametrize("order", "<>")
def test_bytes_in_either_order_are_the_same_table(tmp_path: Path, order: str) -> None:
    np.savez(
        tmp_path / "t.npz", X=np.arange(6.0).reshape(3, 2).astype(f"{order}f4"), y=np.arange(3).astype(f"{order}i8")
    )
    (part,) = open_table(tmp_path / "t.npz").parts(["x1", "y"])
    assert part.to_numpy(float).tolist() == [[1, 0], [3, 1], [5, 2]]
    assert part["y"].unique().tolist() == [0, 1, 2]


def npz(header: str, data: bytes = b"", how: int = zipfile.ZIP_DEFLATED, name: str = "X") -> bytes:
    """An NPZ file of one array with this header."""
    text = header.encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
    return out.getvalue()


def claims(shape: str, descr: str = "'<f8'", order: bool = False) -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def encrypted() -> bytes:
    """A file whose directory says that its member is encrypted."""
    content = bytearray(npz(claims("(0, 1)")))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def enlarged() -> bytes:
    """A file whose directory and array agree on 4 GB, of which there is nothing."""
    content = bytearray(npz(claims("(1, 500000000)")))
    place = content.index(b"PK\x01\x02")
    content[place + 24 : place + 28] = (128 + 4_000_000_000).to_bytes(4, "little")
    return bytes(content)


ARRAYS: dict[str, tuple[bytes, str]] = {
    "a trillion columns": (npz(claims("(1, 1000000000000)")), "t is not a whole NPZ file (X.npy has 0 bytes where "),
    "a trillion columns of no row": (npz(claims("(0, 1000000000000)")), "t: X has 1,000,000,000,000 columns; give no"),
    "a directory that lies": (enlarged(), "t is not a whole NPZ file (X.npy would have 4,000,000,128 bytes);"),
    "texts of a gigabyte": (npz(claims("(0, 1)", "'<U400000000'")), "t: X holds texts of the type <U400000000; save"),
    "void": (npz(claims("(0, 1)", "'V8'")), "t: X holds values of the type |V8, which are not read; save numbers,"),
    "records": (npz(claims("(0, 1)", "[('a', '<f8')]")), "t: X holds values of the type [('a', '<f8')], which"),
    "complex numbers": (npz(claims("(0, 1)", "'<c16'")), "t: X holds values of the type complex128, which are"),
    "a header that is not closed": (npz(claims("(1, 1")[:-5]), "t is not a whole NPZ file (the header of X.npy "),
    "a header of parentheses": (npz("(" * 5000), "t is not a whole NPZ file (the header of X.npy cannot be read);"),
    "less than nothing": (npz(claims("(-1, -8)")), "t is not a whole NPZ file (X.npy has the shape (-1, -8));"),
    "a truth value for a size": (npz(claims("(True, 1)")), "t is not a whole NPZ file (X.npy has the shape (True,"),
    "too long": (npz(claims("(1, 1)"), b"\0" * 16), "t is not a whole NPZ file (X.npy has 16 bytes where there"),
    "encrypted": (encrypted(), "t is encrypted; save it without a password."),
    "compressed by another program": (
        npz(claims("(0, 1)"), how=zipfile.ZIP_BZIP2),
        "t is not a whole NPZ file (X.npy is compressed in another way than NumPy's);",
    ),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays_that_are_not_what_they_say_are_one_sentence(tmp_path: Path, what: str, untrained: None) -> None:
    content, sentence = ARRAYS[what]
    (tmp_path / "t").write_bytes(content)
    refused(laddernet("fit", "t", cwd=tmp_path), sentence)


def test_an_array_by_columns_is_read_at_once_only_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "t.npz", X=np.asfortranarray(np.arange(20.0).reshape(10, 2)))
    assert open_table(tmp_path / "t.npz").columns == ["x0", "x1"]
    monkeypatch.setattr("laddernet.data.npz._WHOLE_BYTES", 159)
    with pytest.raises(InputError, match=r"X lies by columns and has 160 bytes; save it by rows, with np\.asconti"):
        open_table(tmp_path / "t.npz")


def test_the_parts_of_wide_texts_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "t.npz", X=np.arange(10.0)[:, None], y=np.array(list("abcdefghij"), "U100"))
    monkeypatch.setattr("laddernet.table.read_npz._PART_BYTES", 1000)
    parts = list(open_table(tmp_path / "t.npz").parts(["x0", "y"]))
    assert [len(part) for part in parts] == [2] * 5
    assert "".join(pd.concat(parts)["y"]) == "abcdefghij"
