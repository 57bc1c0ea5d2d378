"""The campaigns of kills: their commands, and which processes get which signal how often."""

from dataclasses import dataclass

LEASE = 3.0  # seconds

# The driver with shorter leases, and without a limit on the attempts of a run.
ENTRY = f"""
import os
from laddernet.study import driver, store
assert hasattr(driver, "HEARTBEAT") and hasattr(driver, "_LOSSES")
driver.HEARTBEAT, driver._LOSSES = 0.5, 10**9
store.Store.open.__func__.__kwdefaults__["lease"] = {LEASE}
from laddernet.cli.main import main
main()
"""

SMALL = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--checkpoint-every", "0")
TRAIN = ("train", *SMALL, "--epochs", "400", "--out", "work")
STUDY = ("study", "--models", "vanilla,baseline-noise", "--seeds", "2", *SMALL, "--epochs", "120", "--jobs", "2")
TUNE = (
    "tune",
    "vanilla",
    *SMALL,
    "--epochs",
    "60",
    "--trials",
    "4",
    "--draws",
    "2",
    "--sampler",
    "random",
    "--no-prune",
)


@dataclass(frozen=True)
class Campaign:
    """Commands that are disturbed together, and the processes that get signals."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    reference: str
    victims: dict[str, int]
    kills: int | None = None  # instead of PER_CAMPAIGN


_SERVER = {"SIGKILL PostgreSQL": 12, "SIGKILL PostgreSQL backend": 8, "SIGSTOP PostgreSQL": 10}
_LOCAL = {"SIGKILL worker": 55, "SIGKILL driver": 25, "SIGSTOP worker": 8, "SIGSTOP driver": 12}
CAMPAIGNS = {
    "train": Campaign("train", (TRAIN,), "train", {"SIGKILL driver": 85, "SIGSTOP driver": 15}),
    "study": Campaign("study", ((*STUDY, "--out", "work"),), "study", _LOCAL),
    "two drivers, one folder": Campaign("two drivers, one folder", ((*STUDY, "--out", "work"),) * 2, "study", _LOCAL),
    "three drivers, one store": Campaign(
        "three drivers, one store",
        tuple((*STUDY, "--store", "shared.db", "--out", f"work{n}") for n in range(3)),
        "study",
        {**_LOCAL, "SIGSTOP driver": 20},
    ),
    "tune": Campaign("tune", ((*TUNE, "--jobs", "2", "--out", "work"),), "tune", _LOCAL),
    "two searches, one folder": Campaign(
        "two searches, one folder", ((*TUNE, "--jobs", "1", "--out", "work"),) * 2, "tune", _LOCAL
    ),
    "PostgreSQL": Campaign(
        "PostgreSQL",
        tuple((*STUDY, "--store", "{server}", "--out", f"work{n}") for n in range(2)),
        "study",
        {**_LOCAL, **_SERVER},
    ),
    "two searches, PostgreSQL": Campaign(
        "two searches, PostgreSQL",
        tuple((*TUNE, "--jobs", "1", "--store", "{server}", "--out", f"work{n}") for n in range(2)),
        "tune",
        {**_LOCAL, **_SERVER},
    ),
    "Ray": Campaign(
        "Ray",
        ((*STUDY[:-2], "--executor", "ray", "--address", "{ray}", "--out", "work"),),
        "study",
        {
            "SIGKILL Ray worker": 25,
            "SIGSTOP Ray worker": 10,
            "SIGKILL Ray node": 25,
            "SIGSTOP Ray node": 20,
            "SIGKILL driver": 20,
            "SIGSTOP driver": 10,
            "SIGKILL Ray bridge": 10,
        },
        kills=8,
    ),
}
