"""Stores for tests: a fresh one for each, in a file or in PostgreSQL."""

import sqlalchemy as sa

from laddernet.study.store import Run, Store

RESULT = {"test_error": 1.25, "validation_error": 1.5, "seconds": 3.0, "folder": "runs/a"}

HISTORY = [{"epoch": 1, "cost": 0.5}, {"epoch": 2, "cost": 0.25, "validation_error": 1.5}]

ENVIRONMENT = {"python": "3.11", "packages": {"jax": "0.10"}}


def address(url: sa.URL) -> str:
    return url.render_as_string(hide_password=False)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def names(runs: list[Run]) -> str:
    return "".join(run.fingerprint for run in runs)


def finish(store: Store, owner: str, fingerprint: str) -> bool:
    return store.finish(owner, fingerprint, RESULT, HISTORY, ENVIRONMENT)
