"""Bad files that laddernet itself writes, or whose template it writes: models, checkpoints, stores, plans, TOML files."""

import hashlib
import json
import random
import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from torture.inputs_odd import as_json, damaged, mutated, odd_json, text
from torture.seeds import TINY, Prepared, Seeds

# --- Model files ----------------------------------------------------------------------------------------------


def _model_command(rng: random.Random, bad: str) -> list[str]:
    table = "table.npz" if rng.random() < 0.2 else "table.csv"
    commands = [
        ["inspect", bad], ["inspect", bad, "--json"], ["predict", bad, table, "--out", "out.csv"], ["suggest", bad, table],
        ["fit", "table.csv", "--target", "y", "--out", "model.csv"],
    ]  # fmt: skip
    return rng.choice(commands[:4])


def _around_a_model(seeds: Seeds, folder: Path) -> None:
    seeds.copy("table.csv", folder)
    seeds.copy("table.npz", folder)
    (folder / "out.csv").write_text("kept\n")


def _parsed(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header["__metadata__"], _loaded(content)


def _loaded(content: bytes) -> dict[str, Any]:
    """Sort arrays by name; the order in a file may differ between processes."""
    return dict(sorted(safetensors.numpy.load(content).items()))


def _same_arrays(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape, a[name].tobytes()) == (b[name].dtype, b[name].shape, b[name].tobytes())
        for name in a
    )


def model_file(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    _around_a_model(seeds, folder)
    seed = seeds.bytes(rng.choice(["model.safetensors", "arrays.safetensors"]))
    (folder / "bad.safetensors").write_bytes(damaged(rng, seed))

    def unchanged() -> bool:
        about, arrays = _parsed(seed)
        bad_about, bad_arrays = _parsed((folder / "bad.safetensors").read_bytes())
        return about == bad_about and _same_arrays(arrays, bad_arrays)

    return Prepared(_model_command(rng, "bad.safetensors"), same=_holds(unchanged))


def signed_model(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    """A model file with other content and a checksum that fits it."""
    from laddernet.inference import modelfile

    _around_a_model(seeds, folder)
    about, arrays = _parsed(seeds.bytes(rng.choice(["model.safetensors", "arrays.safetensors"])))
    told = about["about"]
    if rng.random() < 0.7:
        told = as_json(rng, mutated(seeds, rng, json.loads(told))).decode("utf-8", "replace")
    if rng.random() < 0.5:
        for _ in range(rng.choice([1, 1, 3])):
            name = rng.choice(list(arrays))
            array = arrays[name]
            arrays[name] = rng.choice(
                [
                    lambda a: np.zeros((0, *a.shape[1:]), a.dtype), lambda a: a.reshape(-1), lambda a: a[..., None],
                    lambda a: a.astype(np.float16), lambda a: a.astype(np.int64), lambda a: a.astype(np.uint8),
                    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else a, lambda a: a * 0, lambda a: a.T,
                    lambda a: a * np.asarray(1e38, np.float32), lambda a: np.repeat(a, 3, 0) if a.ndim else a,
                    lambda a: np.zeros((), a.dtype), lambda a: a > 0, lambda a: a[..., :-1] if a.ndim else a,
                ]
            )(array)  # fmt: skip
        if rng.random() < 0.3:
            arrays.pop(rng.choice(list(arrays)))
        if rng.random() < 0.2:
            arrays[text(seeds, rng).encode("utf-8", "replace").decode()] = np.zeros(3, np.float32)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    kind = about["laddernet"] if rng.random() < 0.9 else rng.choice(["classifier", "", text(seeds, rng)])
    kind = kind.encode("utf-8", "replace").decode()
    header = {"laddernet": kind, "about": told, "sha256": modelfile._check(kind, told, arrays)}
    (folder / "bad.safetensors").write_bytes(safetensors.numpy.save(arrays, metadata=header))
    return Prepared(_model_command(rng, "bad.safetensors"))


# --- Runs, stores, plans, TOML --------------------------------------------------------------------------------


def checkpoint(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    """A run's folder with a damaged checkpoint, configuration or result."""
    argv = ["train", *TINY, "--out", "run"]
    if rng.random() < 0.2:
        shutil.copytree(seeds.folder / "finished", folder / "run")
        path = folder / "run" / rng.choice(["config.json", "result.json"])
        held = path.read_bytes()
        path.write_bytes(
            damaged(rng, held) if rng.random() < 0.5 else as_json(rng, mutated(seeds, rng, json.loads(held)))
        )
        return Prepared(argv)
    run = seeds.copy("run", folder)
    records = sorted((run / "checkpoints").glob("*.json"))
    for path in records[:-1]:  # the last one is left alone, without an older one to fall back on
        path.unlink()
        path.with_suffix(".safetensors").unlink()
    record, arrays = records[-1], records[-1].with_suffix(".safetensors")
    before = json.loads(record.read_bytes()), arrays.read_bytes()
    if rng.random() < 0.7:
        path = rng.choice([record, arrays])
        path.write_bytes(damaged(rng, path.read_bytes()))
        return Prepared(argv, same=_holds(lambda: (json.loads(record.read_bytes()), arrays.read_bytes()) == before))
    # Damage that the checksums do not detect.
    changed_record = before[0]
    if rng.random() < 0.5:
        changed_record = mutated(seeds, rng, changed_record)
    else:
        held = _loaded(before[1])
        name = rng.choice(list(held))
        held[name] = rng.choice([held[name][..., None], held[name].astype(np.float64), held[name].reshape(-1)])
        if rng.random() < 0.3:
            held.pop(name)
        arrays.write_bytes(safetensors.numpy.save(held))
    if isinstance(changed_record, dict):
        changed_record.pop("check", None)
        if "sha256" in changed_record:
            changed_record["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
        changed_record["check"] = hashlib.sha256(json.dumps(changed_record, sort_keys=True).encode()).hexdigest()
    record.write_bytes(as_json(rng, changed_record))
    return Prepared(argv)


def store(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    search = rng.random() < 0.35
    held = seeds.copy("tune" if search else "study", folder)
    path = held / ("tune.db" if search else "study.db")
    if rng.random() < 0.6:
        path.write_bytes(damaged(rng, path.read_bytes()))
    else:
        _change_database(seeds, rng, path)
    if search:
        argv = rng.choice(
            [["tune", "report"], ["tune", "report", "vanilla"], ["tune", "vanilla", *TINY, "--trials", "3"]]
        )
        return Prepared([*argv, "--out", "tune"])
    again = ["study", "--models", "vanilla,baseline", "--seeds", "2", *TINY]
    return Prepared([*rng.choice([["report"], ["study", "status"], again, [*again, "--dry-run"]]), "--out", "study"])


def _change_database(seeds: Seeds, rng: random.Random, path: Path) -> None:
    """Change values, columns and tables of a store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice([1, 1, 3])):
            table = rng.choice(tables)
            columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            column = rng.choice(columns)
            value: Any = rng.choice(
                [None, -1, 1.5, 2**62, b"\xff\0", "", "{", "[" * 5000, "null", "NaN", as_json(rng, odd_json(seeds, rng)),
                 text(seeds, rng).encode("utf-8", "replace").decode(), as_json(rng, odd_json(seeds, rng)).decode("utf-8", "replace")]
            )  # fmt: skip
            statement, values = rng.choice(
                [
                    (f"UPDATE {table} SET {column} = ?", [value]),
                    (f"UPDATE {table} SET {column} = ?", [value]),
                    (f"UPDATE {table} SET {column} = ?", [value]),
                    (f"DELETE FROM {table}", []),
                    (f"DROP TABLE {table}", []),
                    (f"ALTER TABLE {table} RENAME COLUMN {column} TO other", []),
                    ("PRAGMA user_version = 99", []),
                    ("PRAGMA application_id = 7", []),
                    ("CREATE TABLE other (x)", []),
                ]
            )
            try:
                file.execute(statement, values)
            except (sqlite3.Error, OverflowError):  # a constraint refuses the value
                continue
            if statement.startswith(("DROP", "ALTER")):
                break


def plan(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    path = seeds.copy("study", folder) / "study.json"
    held = path.read_bytes()
    path.write_bytes(damaged(rng, held) if rng.random() < 0.4 else as_json(rng, mutated(seeds, rng, json.loads(held))))
    again = ["study", "--models", "vanilla,baseline", "--seeds", "2", *TINY]
    return Prepared([*rng.choice([["report"], ["study", "status"], again]), "--out", "study"])


def toml(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    name = rng.choice(["tuned.toml", "space.toml"])
    held = seeds.bytes(name)
    if rng.random() < 0.5:
        data = damaged(rng, held)
    else:
        lines = held.decode().splitlines()
        values = [
            "[" * 2000 + "]" * 2000, "{a=" * 500 + "1" + "}" * 500, "9" * 5000, "1e999", "nan", "inf", "-1", "''", "[]",
            "{}", "true", "2024-01-01", "[1, 'x']", "0x" + "f" * 99, '"' + "x" * 9999 + '"', "1979-05-27T07:32:00Z", "[[[1]]]",
        ]  # fmt: skip
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(lines))
            key, equals, _ = lines[at].partition("=")
            lines[at] = rng.choice(
                [f"{key}= {rng.choice(values)}" if equals else f"[{key}.x]", f"[{text(seeds, rng)}]", "", text(seeds, rng),
                 f"{text(seeds, rng)} = {rng.choice(values)}", lines[rng.randrange(len(lines))]]
            )  # fmt: skip
        data = "\n".join(lines).encode("utf-8", "surrogateescape")
    (folder / name).write_bytes(data)
    if name == "space.toml":
        more = rng.choice([["--show-space"], [*TINY, "--out", "new"]])
        return Prepared(["tune", "vanilla", "--space", name, *more])
    return Prepared(
        [*rng.choice([["train"], ["study", "--models", "vanilla"]]), *TINY, "--tuned", name, "--out", "new"]
    )


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError, RecursionError, zlib.error):
        return False
