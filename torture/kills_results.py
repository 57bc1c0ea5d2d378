"""The results of a campaign that are compared with those of the undisturbed command."""

import time
from pathlib import Path

from torture.state import State, rows, state

LIVES = 60.0  # seconds that a process may take to end


def result(folder: Path, outs: list[str], url: str | None) -> State:
    """Read the results to compare: each run's files by the name of its folder, the tables, the store."""
    found: State = {}
    for out in outs:
        files = state(folder / out)
        for name, value in files.items():
            # A run that this driver began may have been finished by another, in its folder.
            if "runs/" in name and f"{name.rpartition('/')[0]}/result.json" not in files:
                continue
            kept = (
                "table.csv",
                "table.md",
                "table.tex",
                "weights.safetensors",
                "metrics.csv",
                "config.json",
                "result.json",
            )
            if name.endswith(kept):
                found.setdefault(name, value)
                if found[name] != value:
                    found[name] = f"differs in {out}"
            elif name.endswith(".db"):
                found["store"] = value
    if (folder / "shared.db").exists():
        found["store"] = state(folder)["shared.db"]
    if url is not None:
        found["store"] = _recorded(url)
    return found


def _recorded(url: str) -> State:
    """Read a store in PostgreSQL, after the server has recovered from the last signal."""
    import sqlalchemy

    ends = time.monotonic() + LIVES
    while True:
        try:
            return _rows_of(url)
        except sqlalchemy.exc.OperationalError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.5)


def _rows_of(url: str) -> State:
    import sqlalchemy

    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            tables = sqlalchemy.inspect(connection).get_table_names()
            return rows(lambda query: connection.exec_driver_sql(query), tables)
    finally:
        engine.dispose()
