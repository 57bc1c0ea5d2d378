"""Odd options of every command, and Python files whose combinator is invalid."""

import random
from importlib import import_module
from pathlib import Path
from typing import Any

from torture.inputs_odd import damaged, text
from torture.inputs_tables import around_a_table
from torture.seeds import TINY, Prepared, Seeds

# Options that use the network, a cluster or a device are not given at random.
_LEFT_OUT = {"--executor", "--address", "--storage", "--help", "--data", "--write", "--cpus-per-run", "--gpus-per-run"}


def _commands() -> dict[str, list[Any]]:
    """Read the options of every command from its parser."""
    import typer

    from laddernet.cli.main import _COMMANDS

    found = {}
    for module, names in _COMMANDS.items():
        for name in names:
            alone = typer.Typer(add_completion=False)
            alone.command(name)(getattr(import_module(f"laddernet.cli.{module}"), name))
            found[name] = typer.main.get_command(alone).params  # type: ignore[attr-defined]
    return found


_OPTIONS: dict[str, list[Any]] = {}


def options(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    if not _OPTIONS:
        _OPTIONS.update(_commands())
    around_a_table(seeds, folder)
    seeds.copy("table.csv", folder)
    seeds.copy("tuned.toml", folder)
    new = ["--out", "new"]
    base = {
        "fit": ["fit", "table.csv", "--target", "y"],
        "predict": ["predict", "model.safetensors", "table.csv"],
        "inspect": ["inspect", "model.safetensors"],
        "suggest": ["suggest", "model.safetensors", "table.csv"],
        "label": ["label", "table.csv"],
        "compare": ["compare", "model.safetensors", "model.safetensors", "table.csv"],
        "curve": ["curve", "table.csv", "--target", "y"],
        "models": ["models"],
        "train": ["train", *TINY, *new],
        "study": ["study", "--models", "vanilla", *TINY, *new],
        "report": ["report", *new],
        "tune": ["tune", "vanilla", *TINY, *new],
    }
    command = rng.choice(
        ["fit", "predict", "suggest", "curve", "train", "train", "study", "study", "tune", "tune", *base]
    )
    argv = list(base[command])
    flags = [
        option for option in _OPTIONS[command] if option.opts[0].startswith("--") and option.opts[0] not in _LEFT_OUT
    ]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if not flags:
            break
        option = rng.choice(flags)
        if getattr(option, "is_flag", False):
            argv.append(rng.choice([*option.opts, *option.secondary_opts]))
            continue
        value = text(seeds, rng).replace("\0", "")
        if option.opts[0] in ("--out", "--also", "--labels", "--store", "--space") and value.startswith(
            ("/", "~", "..")
        ):
            value = "in/" + value.lstrip("/.~")  # only the case's folder may be written to
        if option.opts[0] == "--store" and "://" not in value and rng.random() < 0.3:
            value = (
                rng.choice(["postgresql://127.0.0.1:1/x", "mysql://a/b", "sqlite:///new.db", "://", "postgresql://"])
                + value
            )
        argv += [f"{option.opts[0]}={value}"] if rng.random() < 0.5 else [option.opts[0], value]
    if rng.random() < 0.1:
        argv.insert(rng.randrange(len(argv) + 1), text(seeds, rng).replace("\0", ""))
    return Prepared(argv)


def combinator(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    """Write a Python file whose combinator is invalid."""
    good = (
        "import equinox as eqx\n\nclass Mine(eqx.Module):\n    a: object\n\n    def __init__(self, units, *, key=None):\n"
        "        import jax.numpy as jnp\n        self.a = jnp.zeros(units)\n\n    def __call__(self, z, u):\n        return z * self.a + u\n"
    )
    source = rng.choice(
        [
            damaged(rng, good.encode()), good.encode("utf-16"), b"raise ValueError('no')", b"1/0", b"def", b"\0", b"", b"Mine = 3",
            b"class Mine: pass", b"class Mine:\n def __call__(self): pass", b"import nowhere", b"class Mine(int): pass",
            b"def Mine(*a, **k): return None", b"Mine = None",
            b"class Mine:\n def __init__(self, *a, **k): raise RuntimeError('x\\ny')",
        ]
    )  # fmt: skip
    (folder / "comb.py").write_bytes(source)
    name = rng.choice(
        ["comb.py:Mine"] * 6 + ["comb.py:", "comb.py", ":Mine", "comb.py:No", "./comb.py:Mine", "comb:Mine", "."]
    )
    command = rng.choice([["train"], ["study", "--seeds", "1"]])
    return Prepared([*command, *TINY, "--out", "new", "--model" if command[0] == "train" else "--models", name])
