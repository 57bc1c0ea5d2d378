"""Bad tables: CSV, NPZ and Parquet, and the commands that read them."""

import csv
import io
import random
import shutil
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from torture.inputs_odd import damaged, text
from torture.seeds import Prepared, Seeds


def _table_command(rng: random.Random, name: str, target: str = "y") -> list[str]:
    """Choose a command that reads a table; the files that it would write exist already."""
    model = "arrays.safetensors" if name.endswith("npz") else "model.safetensors"
    commands = [
        ["predict", model, name, "--out", "out.csv"],
        ["predict", model, name, "--proba", "--keep", "id"] if model[0] == "m" else ["predict", model, name, "--proba"],
        ["suggest", model, name, "--count", "3", "--out", "out.csv"],
        ["fit", name, "--target", target, "--out", "old.safetensors"],
        ["fit", name, "--target", target, "--also", name, "--category", "size" if model[0] == "m" else "x0"],
        ["fit", name, "--target", target, "--labels", name, "--out", "old.safetensors"],
        ["curve", name, "--target", target, "--out", "out.svg"],
    ]
    return rng.choice(commands)


def around_a_table(seeds: Seeds, folder: Path) -> None:
    seeds.copy("model.safetensors", folder)
    seeds.copy("arrays.safetensors", folder)
    shutil.copy(folder / "model.safetensors", folder / "old.safetensors")
    (folder / "out.csv").write_text("kept\n")
    (folder / "out.svg").write_text("<svg/>")


def csv_table(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    around_a_table(seeds, folder)
    seed = seeds.bytes("table.csv")
    how = rng.randrange(10)
    if how < 4:
        data = damaged(rng, seed)
    elif how < 7:
        rows = list(csv.reader(io.StringIO(seed.decode())))
        for _ in range(rng.choice([1, 2, 10, 100])):
            row = rows[0 if rng.random() < 0.2 else rng.randrange(len(rows))]
            if row:
                place = rng.randrange(len(row))
                row[place] = rng.choice([text(seeds, rng), text(seeds, rng), "z" * 140_000, "1e999", "0" * 4000])
            if rng.random() < 0.1:
                row.append("more")
        written = io.StringIO()
        style: dict[str, Any] = {"delimiter": rng.choice(",;\t|"), "lineterminator": rng.choice(["\n", "\r\n", "\r"])}
        csv.writer(written, quoting=rng.choice([0, 1]), **style).writerows(rows)
        encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1", "utf-7"])
        data = written.getvalue().encode(encoding, "replace" if encoding != "utf-8" else "surrogatepass")
    else:
        header = "id,size,colour,when,y\n"
        data = rng.choice(
            [
                lambda: b"", lambda: b"\n" * rng.randrange(5), lambda: header.encode(), lambda: header.encode()[:-1],
                lambda: (header + "1,2,red,2024-01-01,cat\n").encode(), lambda: b"\0" * 1000,
                lambda: (header * 2).encode(), lambda: ("," * 100_000 + "\n").encode(), lambda: b'"' * 1001,
                lambda: ("c" + ",c".join(map(str, range(20_000))) + "\n").encode() * 2, lambda: rng.randbytes(5000),
                lambda: seed.replace(b"\n", b"\n\n"), lambda: seed.replace(b",", b"\0"), lambda: seed + b'"never closed,',
                lambda: seed.replace(b"cat", b""), lambda: seed.replace(b"dog", b"cat"), lambda: b"y\n" + b"a\n" * 99,
                lambda: (header + "".join(f"{i},{i},{i},{i},{i}\n" for i in range(300))).encode(),
                lambda: b"\xff\xfe" + seed, lambda: b"PK\x03\x04" + seed, lambda: b"PAR1" + seed, lambda: b"\x1f\x8b" + seed,
                lambda: b"\x93NUMPY\x01\0" + seed, lambda: b"SQLite format 3\0" + seed, lambda: b"%PDF-1.4\n" + seed,
                lambda: (header + ("9" * 100_000 + ",") * 4 + "cat\n").encode(), lambda: seed.replace(b"2024", b"99999"),
            ]
        )()  # fmt: skip
    (folder / "bad.csv").write_bytes(data)
    if rng.random() < 0.1:
        return Prepared(["predict", "model.safetensors", "-", "--out", "out.csv"], stdin=str(folder / "bad.csv"))
    argv = _table_command(rng, "bad.csv")
    if rng.random() < 0.15:
        argv += rng.choice([["--encoding", text(seeds, rng)], ["--delimiter", text(seeds, rng)]])
    return Prepared([part.replace("\0", "") for part in argv])


def npz_table(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    around_a_table(seeds, folder)
    path = folder / "bad.npz"
    if rng.random() < 0.45:
        data = damaged(rng, seeds.bytes("table.npz"))
    else:
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            members = [
                (name, _npy(seeds, rng)) for name in rng.sample(["X", "y", "id", "x0", "z"], rng.randrange(1, 4))
            ]
            if rng.random() < 0.6:
                good = {"X": np.zeros((6, 4), np.float32), "y": np.arange(6) % 2}
                members = [("X", _npy_of(good["X"])), ("y", _npy_of(good["y"]))]
                members[rng.randrange(2)] = (rng.choice("Xy"), _npy(seeds, rng))
            for name, content in members:
                end = rng.choice([".npy", ".npy", ".npy", ".npy", ".txt", ""])
                archive.writestr(rng.choice(["", "", "", "", "../", "a/"]) + name + end, content)
            if rng.random() < 0.04:
                archive.writestr("bomb.npy", _npy_of(np.zeros(30_000_000)), zipfile.ZIP_DEFLATED)
        data = whole.getvalue()
        if rng.random() < 0.15:  # encrypted, or compressed in another way, as the directories say
            flag, method = rng.choice([(1, None), (None, 99), (None, 12), (0xFFFF, None)])
            for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
                if flag is not None:
                    data = _patch(data, mark, at, struct.pack("<H", flag))
                if method is not None:
                    data = _patch(data, mark, at + 2, struct.pack("<H", method))
    path.write_bytes(data)
    return Prepared(_table_command(rng, "bad.npz"))


def _patch(data: bytes, mark: bytes, offset: int, value: bytes) -> bytes:
    at = data.find(mark)
    return data if at < 0 else data[: at + offset] + value + data[at + offset + len(value) :]


def _npy_of(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _npy(seeds: Seeds, rng: random.Random) -> bytes:
    """An array whose header claims something, with few bytes behind it."""
    if rng.random() < 0.3:
        kinds = [
            "f2",
            "f8",
            "i1",
            "i8",
            "u8",
            "b1",
            "c16",
            "S5",
            "U3",
            "M8[s]",
            "m8[D]",
            "V8",
            "S0",
            "U0",
            ">f4",
            ">i2",
        ]
        array = np.zeros(rng.choice([(6,), (6, 4), (6, 2, 2), (0, 4), (6, 0), (), (1, 4)]), rng.choice(kinds))
        if array.dtype.kind == "f":
            array[...] = rng.choice([0, np.nan, np.inf, -np.inf, 1e-45])
        return _npy_of(np.asfortranarray(array) if rng.random() < 0.3 else array)
    shape = rng.choice(
        ["(6, 4)", "(10**12, 4)", "(1000000000000, 4)", "(6, 1000000000000)", "(-1, 4)", "(6, -4)", "(6.5, 4)", "(True, 4)",
         "('6', 4)", "()", "(6,)", "6", "None", "(99999999999999999999999, 1)", "(0, 0)", "(6, 4, 1, 1)", "((6,),)",
         "(4294967296, 4294967296)", "(6, 4" + ", 1" * 70 + ")", "(2147483648,)", "(6, 4)" * 2, "[6, 4]"]
    )  # fmt: skip
    kind = rng.choice(
        ["'<f4'", "'<f8'", "'|O'", "'V8'", "'|V8'", "'<U400000000'", "'<U3'", "'S2147483647'", "'<M8[ns]'", "'x'", "''",
         "[('a', '<f4'), ('b', '<i4')]", "[('a', '<f4', (1000000,))]", "'<f4,<f4'", "None", "'float32'", "'<c16'",
         "'<f' + '4'", "('<f4', (10,))", "'>i8'", "'|S0'", "'<U0'", "'?'", "'<f3'", "'<g'", "'" + "f" * 3000 + "'"]
    )  # fmt: skip
    header = f"{{'descr': {kind}, 'fortran_order': {rng.choice(['False', 'True', '0', 'x'])}, 'shape': {shape}, }}"
    header = rng.choice(
        [header] * 12 + ["{" * 5000, header[:-2], "(" * 9000, "", header + "}", "9" * 5000, header * 30]
    )
    encoded = header.encode("latin-1") + b"\n"
    version = rng.choice([(1, 0)] * 6 + [(2, 0), (3, 0), (9, 9), (0, 0)])
    claimed = rng.choice([len(encoded)] * 8 + [0, 5, 65535])
    size = struct.pack("<H", claimed & 0xFFFF) if version == (1, 0) else struct.pack("<I", rng.choice([claimed, 2**31]))
    return b"\x93NUMPY" + bytes(version) + size + encoded + bytes(rng.choice([0, 96, 1000]))


def parquet_table(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    import pyarrow as pa
    import pyarrow.parquet

    around_a_table(seeds, folder)
    path = folder / "bad.parquet"
    if rng.random() < 0.6:
        path.write_bytes(damaged(rng, seeds.bytes("table.parquet")))
    else:
        n = rng.choice([0, 1, 6, 60])
        import datetime
        import decimal

        columns = {
            "id": pa.array(range(n)),
            "size": pa.array([0.5] * n),
            "colour": pa.array(["red"] * n),
            "when": pa.array([datetime.datetime(2024, 1, 1)] * n),
            "y": pa.array(["cat", "dog", None, None, None, None] * 10)[:n],
        }
        odd = [
            pa.array([[1, 2]] * n), pa.array([{"a": 1}] * n), pa.array([decimal.Decimal("1.5")] * n), pa.nulls(n),
            pa.array([b"\xff\0"] * n), pa.array([datetime.time(1)] * n), pa.array([datetime.date(1, 1, 1)] * n),
            pa.array([2**63] * n, pa.uint64()), pa.array([float("nan")] * n), pa.array([float("inf")] * n),
            pa.array(["x" * 200_000] * n), pa.array(["a", "b"] * n)[:n].dictionary_encode(), pa.array([True] * n),
            pa.array([datetime.timedelta(1)] * n), pa.array([10**18] * n, pa.timestamp("ns")), pa.array([1] * n, pa.int8()),
            pa.array([-(2**62)] * n, pa.timestamp("s")), pa.array([0.1] * n, pa.float16()) if n else pa.nulls(n),
            pa.array(["\0"] * n), pa.array(["\x1b[31m"] * n),
        ]  # fmt: skip
        for _ in range(rng.randrange(1, 4)):
            columns[rng.choice([*columns, text(seeds, rng)])] = rng.choice(odd)
        for _ in range(rng.choice([0, 0, 1])):
            columns.pop(rng.choice(list(columns)))
        names, arrays = list(columns), list(columns.values())
        if rng.random() < 0.1 and names:
            names, arrays = [*names, names[0]], [*arrays, arrays[0]]
        try:
            pyarrow.parquet.write_table(pa.table(arrays, names=names), path)
        except (pa.ArrowException, UnicodeError, ValueError, TypeError):  # not every type can be stored
            path.write_bytes(b"PAR1")
    return Prepared(_table_command(rng, "bad.parquet"))
