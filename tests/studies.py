"""Small studies, trained or made up, for the tests of several rooms."""

from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from support import digits, laddernet

from laddernet.study.plan import PRESETS, keep_plan, plan
from laddernet.study.store import Store

MODELS = "baseline,vanilla"

SETTINGS = ("--models", MODELS, "--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--out", "s")


def tiny(**changes: object) -> dict:
    models = changes.pop("models", ("vanilla", "linear"))
    what = PRESETS["demo"].__class__("", "digits", (40,), seeds=2, epochs=2, models=models)
    return plan(digits(), what, **{"hidden": (8, 4), **changes})


def compute(folder: Path, configs: dict, error: float = 10.0) -> None:
    """Record a result for each of these runs that waits, as if it had been trained."""
    with closing(Store.open(folder / "study.db")) as store:
        store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
        for run in store.claim("me", list(configs), limit=len(configs)):
            store.finish("me", run.fingerprint, {"test_error": error, "seconds": 1.0}, [{"epoch": 1}], {})


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("table.*"))}


def computed_study(folder: Path) -> Path:
    """Make a study of four runs that are finished and in the table."""
    configs = tiny()
    keep_plan(folder, configs, store=None, command="laddernet study")
    compute(folder, configs)
    assert "4 of 4 runs are finished" in laddernet("report", "--out", ".", cwd=folder).out
    return folder
