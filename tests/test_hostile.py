"""Hostile and damaged input: claims that are larger than the file, odd names, errors of the system."""

import csv
import errno
import io
import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import load_iris
from support import Finished, laddernet

from laddernet import LadderClassifier
from laddernet.classifier.curve import Point, plot_label_curve, save_picture
from laddernet.classifier.labels import encode_labels
from laddernet.cli.options import whole_number
from laddernet.errors import InputError
from laddernet.files import read_small, require_regular
from laddernet.inference import modelfile
from laddernet.table.model import TableModel
from laddernet.table.read import open_table
from laddernet.text import visible

LONG = "x" * 300
CSV = "a,label\n1,x\n2,y\n3,x\n4,y\n5,x\n"
TRAIN = "There should be no training."


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here gets as far as to train."""

    def fit(*_: Any) -> None:
        raise AssertionError(TRAIN)

    monkeypatch.setattr(LadderClassifier, "fit", fit)


def refused(done: Finished, sentence: str) -> None:
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: {sentence}"), done.err
    assert done.err.count("\n") == 1


# --- NPZ --------------------------------------------------------------------------------------------------------


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
    monkeypatch.setattr("laddernet.table.read_npz._WHOLE_BYTES", 159)
    with pytest.raises(InputError, match=r"X lies by columns and has 160 bytes; save it by rows, with np\.asconti"):
        open_table(tmp_path / "t.npz")


def test_the_parts_of_wide_texts_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "t.npz", X=np.arange(10.0)[:, None], y=np.array(list("abcdefghij"), "U100"))
    monkeypatch.setattr("laddernet.table.read_npz._PART_BYTES", 1000)
    parts = list(open_table(tmp_path / "t.npz").parts(["x0", "y"]))
    assert [len(part) for part in parts] == [2] * 5
    assert "".join(pd.concat(parts)["y"]) == "abcdefghij"


# --- CSV, Parquet -----------------------------------------------------------------------------------------------


def test_a_cell_of_more_than_131072_characters_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"a,b\n{'x' * 200_000},1\n")
    (part,) = open_table(tmp_path / "t.csv").parts(["a"])
    assert len(part["a"][1]) == 200_000


def test_a_cell_or_a_line_beyond_the_bound_is_said_to_be_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untrained: None
) -> None:
    (tmp_path / "t.csv").write_text(f"a,label\n1,{'x' * 2000}\n")
    monkeypatch.setattr("laddernet.table.read_csv._LONGEST_CELL", 1000)
    before = csv.field_size_limit(1000)
    try:
        done = laddernet("fit", "t.csv", "--target", "label", cwd=tmp_path)
    finally:
        csv.field_size_limit(before)
    advice = "shorten it, or close the quote that was left open"
    refused(done, f"t.csv, line 2: a cell has more than 1,000 characters; {advice}.")
    monkeypatch.setattr("laddernet.table.read_csv._LONGEST_LINE", 2000)
    done = laddernet("fit", "t.csv", "--target", "label", cwd=tmp_path)
    refused(done, "t.csv: a line has 2,000 characters or more; give a table in lines.")


@pytest.mark.parametrize("encoding", ["utf-8\udc80", "utf\0", "base64", "\x1b[31m"])
def test_an_encoding_that_is_none_is_one_sentence(tmp_path: Path, encoding: str, untrained: None) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    done = laddernet("fit", "t.csv", "--target", "label", "--encoding", encoding, cwd=tmp_path)
    refused(done, "There is no encoding '")


@pytest.mark.parametrize("option", ["--drop", "--use", "--category"])
def test_a_list_of_columns_with_a_line_break_is_one_sentence(tmp_path: Path, option: str, untrained: None) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    done = laddernet("fit", "t.csv", "--target", "label", option, "a\nb", cwd=tmp_path)
    refused(done, r"'a\nb' is not a list of names; put a name with a line break in double quotes.")


def test_a_parquet_file_with_text_that_is_not_utf8_is_one_sentence(tmp_path: Path, untrained: None) -> None:
    out = io.BytesIO()
    pd.DataFrame({"a": ["Ward north"] * 5, "label": list("xyxyx")}).to_parquet(out, compression=None)
    (tmp_path / "t").write_bytes(out.getvalue().replace(b"Ward north", b"Ward \xffo\xffth"))
    refused(laddernet("fit", "t", "--target", "label", cwd=tmp_path), "t is not a whole Parquet file (")


def test_a_parquet_file_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a\udc80 $[bold]\n"
    with path.open("wb") as file:
        pd.DataFrame({"a": [1, 2]}).to_parquet(file)
    assert open_table(path).columns == ["a"]


# --- Files that are none ----------------------------------------------------------------------------------------


def test_a_name_of_three_hundred_characters_is_one_sentence(tmp_path: Path, untrained: None) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    target = ("t.csv", "--target", "label")
    for arguments in (
        ("fit", LONG, "--target", "label"),
        ("fit", *target, "--out", LONG),
        ("fit", *target, "--also", LONG),
        ("curve", *target, "--out", f"{LONG}.svg"),
        ("predict", LONG, "t.csv"),
        ("inspect", LONG),
        ("train", "--tuned", LONG),
    ):
        done = laddernet(*arguments, cwd=tmp_path)
        refused(done, "Cannot ")
        assert done.err.endswith("(File name too long); give it a shorter name.\n")
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize(
    "arguments", [("inspect",), ("predict",), ("train", "--tuned"), ("tune", "vanilla", "--space")]
)
def test_what_has_no_end_is_not_read(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    more = ("t.csv",) if arguments == ("predict",) else ()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(tmp_path / "socket"))
        for name in ("/dev/zero", "pipe", "socket"):
            done = laddernet(*arguments, name, *more, cwd=tmp_path)
            refused(done, f"{name} is a device, a pipe or a socket; name a regular file.")


def test_a_table_that_is_a_socket_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(tmp_path / "socket"))
        with pytest.raises(InputError, match=r"socket is a device, a pipe or a socket; name a regular file\.$"):
            open_table(tmp_path / "socket")


def test_a_file_of_zeros_is_no_model_and_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "m").open("wb") as file:
        file.truncate(1 << 42)  # which takes no space
    refused(laddernet("inspect", "m", cwd=tmp_path), "m is not a whole model file (its header would have 0 bytes);")
    with pytest.raises(InputError, match=r"m has 4,398,046,511,104 bytes; files of this kind have no more than 16,7"):
        read_small(tmp_path / "m")
    assert require_regular(tmp_path / "m") == 1 << 42


# --- Model files, settings --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of a table, of which a test may make a changed copy."""
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=np.array(["x", "y", "z"])[y], e=list("uvw") * 50)
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    TableModel.fit(frame, "label", method="ladder", hidden=(4,), max_steps=2, n_networks=1, linear_share=0.0).save(path)
    return path


def _set(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(about: dict[str, Any]) -> None:
        for name in path[:-1]:
            about = about[name]
        about[path[-1]] = to

    return change


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a trillion networks": (
        _set("classifier", "networks", to=10**12),
        "The model says it has 1000000000000 networks and holds 1; save the model anew.",
    ),
    "classes of a gigabyte": (
        _set("classifier", "classes", "dtype", to="<U400000000"),
        "The model says its 3 classes are of the type <U400000000; save the model anew.",
    ),
    "classes that are objects": (_set("classifier", "classes", "dtype", to="O"), "The model says its 3 classes are of"),
    "a type that is none": (
        _set("classifier", "classes", "dtype", to="<U4x"),
        "m is not a model as laddernet saves it",
    ),
    "categories of a trillion rows": (
        _set("learned", "rare", to=10**12),
        "The model says that categories in fewer than 1000000000000 rows are rare; save it anew.",
    ),
    "a bound that is no number": (
        _set("classifier", "bound", to={}),
        "The model's bound is not a number above 0; save the model anew.",
    ),
    "a number too large": (_set("classifier", "shares", to=[10**400]), "m is not a model as laddernet saves it (Over"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_model_file_with_its_checksum_right_and_its_claims_wrong_is_one_sentence(
    tmp_path: Path, model: Path, what: str
) -> None:
    change, sentence = CHANGES[what]
    arrays, about = modelfile.read(model, "table")
    change(about)
    modelfile.write(tmp_path / "m", "table", arrays, about)
    refused(laddernet("inspect", "m", cwd=tmp_path), sentence)


def test_a_model_file_that_is_nested_too_deeply_is_one_sentence(tmp_path: Path, model: Path) -> None:
    arrays, about = modelfile.read(model, "table")
    deep = "[" * 10_000 + "]" * 10_000
    with patch("json.dumps", lambda value, **how: deep if "format" in value else dumps(value, **how)):
        modelfile.write(tmp_path / "m", "table", arrays, about)
    refused(laddernet("inspect", "m", cwd=tmp_path), "m is not a model as laddernet saves it (ValueError: nested too")
    header = b'{"__metadata__":' + deep.encode() + b"}"
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header)
    refused(laddernet("inspect", "m", cwd=tmp_path), "m is not a whole model file (nested too deeply);")


dumps = json.dumps


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_an_integer_of_many_digits_is_one_short_sentence(digits: int) -> None:
    with pytest.raises(InputError, match=r"^--hidden has '9+…?' where a whole number should be\.$") as found:
        whole_number("hidden", "9" * digits)
    assert len(str(found.value)) < 120


# --- Python -----------------------------------------------------------------------------------------------------


def test_a_column_of_a_frame_may_be_named_by_a_number(untrained: None) -> None:
    frame = pd.DataFrame({0: [1.0, 2.0, 3.0, 4.0], 3: ["x", "y", "x", "y"]})
    with pytest.raises(AssertionError, match=TRAIN):
        TableModel.fit(frame, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^The frame has no column '4'; it has '0', '3'\.$"):
        TableModel.fit(frame, 4)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^frame must be a pandas DataFrame, got ndarray\.$"):
        TableModel.fit(frame.to_numpy(), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("mark", [[], (), [-1], {}, np.array([-1, 2])])
def test_a_mark_that_is_several_values_is_one_sentence(mark: Any) -> None:
    with pytest.raises(InputError, match=r"^unlabeled must be one value or None, got "):
        encode_labels([0, 1, -1], mark)
    with pytest.raises(InputError, match=r"^unlabeled must be one value or None, got "):
        LadderClassifier(unlabeled=mark).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match=r"^unlabeled must be one value or None, got "):
        TableModel.fit(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), "b", unlabeled=mark)


# --- Pictures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["$", "a$b$c_{", "$\\frac$", "two\nlines", "\x1b[31m", "a\udc80", "\x00"])
@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_a_picture_may_have_any_title(tmp_path: Path, title: str, ending: str) -> None:
    pytest.importorskip("matplotlib")
    points = [Point(1, 2, 30, (4.0, 6.0), (9.0, 9.0)), Point(2, 4, 30, (3.0, 5.0), (8.0, 9.0))]
    save_picture(plot_label_curve(points, title=title, name="a$"), tmp_path / f"p.{ending}")
    if ending == "svg":
        text = (tmp_path / "p.svg").read_text("utf-8")
        assert visible(title) in text
        assert "\x1b" not in text


# --- Errors of the system ---------------------------------------------------------------------------------------


def test_an_error_of_the_system_is_not_said_to_be_of_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("laddernet.data.known", fails)
    advice = "close other files, or raise the limit on open files (ulimit -n)"
    refused(laddernet("data", cwd=tmp_path), f"The system refused a request (Too many open files); {advice}.")

    def breaks(*_: Any, **__: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("laddernet.data.known", breaks)
    refused(laddernet("data", cwd=tmp_path), "The system refused a request (Broken pipe); ")


def test_no_memory_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 40.0 TiB")

    monkeypatch.setattr("laddernet.data.known", fails)
    refused(laddernet("data", cwd=tmp_path), "There is not enough memory (Unable to allocate 40.0 TiB); give a ")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
@pytest.mark.parametrize("unbuffered", [False, True])
def test_only_what_standard_output_refuses_is_said_to_be_of_it(unbuffered: bool) -> None:
    program = [sys.executable, *(["-u"] if unbuffered else []), "-m", "laddernet", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    why = "Cannot write to standard output (No space left on device)"
    assert (done.returncode, done.stderr) == (2, f"laddernet: {why}; send it to a place that has space.\n")


# --- Terminals --------------------------------------------------------------------------------------------------

ESC = "\x1b[31m\u202e\x9b1m\x07[bold]$"


def clean(text: str) -> None:
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", text), repr(text)


@pytest.mark.parametrize(
    "arguments",
    [
        (ESC,),
        (f"--{ESC}",),
        ("fit", f"--{ESC}"),
        ("fit", "t.csv", "--seed", ESC),
        ("fit", "t.csv", ESC),
        ("fit", ESC, "--target", "label"),
        ("fit", "t.csv", "--target", ESC),
        ("fit", "t.csv", "--target", "label", "--drop", ESC),
        ("fit", "t.csv", "--target", "label", "--out", f"absent/{ESC}"),
        ("fit", "t.csv", "--target", "label", "--model", ESC),
        ("inspect", ESC),
        ("data", ESC),
        ("train", "--model", f"{ESC}.py:A"),
        ("train", "--recipe", ESC),
        ("train", "--tuned", ESC),
    ],
)
def test_no_escape_sequence_of_an_argument_reaches_the_terminal(
    tmp_path: Path, arguments: tuple[str, ...], untrained: None
) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    done = laddernet(*arguments, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    clean(done.err)


def test_no_escape_sequence_of_a_table_reaches_the_terminal(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fitted(of: LadderClassifier, *_: Any) -> LadderClassifier:
        return of

    monkeypatch.setattr(LadderClassifier, "fit", fitted)
    monkeypatch.setattr(TableModel, "save", lambda model, path: None)
    frame = pd.DataFrame({f"n{ESC}": [1, 2, 3, 4.5] * 5, f"one{ESC}": 1, "label": ["x", f"y{ESC}"] * 10})
    frame[f"n{ESC}"] = [*frame[f"n{ESC}"].astype(str)[:19], f"odd{ESC}"]
    frame.to_csv(tmp_path / f"t{ESC}.csv", index=False)
    done = laddernet(
        "fit",
        f"t{ESC}.csv",
        "--target",
        "label",
        "--no-estimate",
        "--method",
        "ladder",
        "--out",
        f"m{ESC}",
        cwd=tmp_path,
    )
    assert (done.code, done.err) == (0, "")
    clean(done.out)
    assert done.out.count("\\x1b[31m\\u202e\\x9b1m\\x07[bold]$") >= 5

    monkeypatch.setattr("laddernet.cli.inspect._out", Console(width=300))
    arrays, about = modelfile.read(model, "table")
    first, *others = about["classes"]
    classes = [f"{first}{ESC}", *others]
    labels = dict(zip(classes, about["labels"].values(), strict=True))
    about |= {"target": f"l{ESC}", "dropped": {f"n{ESC}": f"r{ESC}"}, "labels": labels, "version": f"v{ESC}"}
    about["classes"] = classes
    modelfile.write(tmp_path / "m", "table", arrays, about)
    for options in ((), ("--json",)):
        shown = laddernet("inspect", "m", *options, cwd=tmp_path)
        assert (shown.code, shown.err) == (0, "")
        clean(shown.out)
        assert shown.out.count("1b[31m\\u202e\\") == 5
        assert "[bold]$" in shown.out
