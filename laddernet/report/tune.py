"""The results of searches: in the terminal, and as a file of tuned values."""

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laddernet.errors import InputError
from laddernet.files import write_atomic
from laddernet.report.comparisons import standard_error
from laddernet.report.numbers import is_shown, value
from laddernet.text import visible
from laddernet.training.config import REVISION
from laddernet.training.tuned import Entry, Key, held_for, to_toml
from laddernet.tune.outcome import STATES, Outcome, Slice, Tried, newest

BEST = 5  # trials that are shown


def summary(found: Sequence[Outcome]) -> RenderableType:
    """Make a table for each data set and number of labels, with a line for each search."""
    tables: dict[str, Table] = {}
    for outcome in found:
        title = f"{outcome.about['data']}, {outcome.about['labels']} labels"
        if title not in tables:
            tables[title] = _grid("model", "best %", "untuned %", "trials", "pruned", "failed", "saved", text=1)
        tables[title].add_row(
            Text(visible(outcome.about["model"] + other_revision(outcome))),
            error(outcome.best),
            error(outcome.untuned),
            *map(str, (len(outcome.trials), outcome.count("pruned"), outcome.count("failed"))),
            f"{saved(outcome):.0%}",
        )
    parts = (part for title, table in tables.items() for part in (Text(title, "bold"), table))
    return Group(Text("Validation error in per cent: mean ± standard error of the label draws."), *parts)


def other_revision(outcome: Outcome) -> str:
    """Name the revision of the training program of a search, if it is not this version's."""
    revision = outcome.about.get("revision", "unknown")  # older searches do not record it
    return "" if revision == REVISION else f" (revision {revision})"


def details(outcome: Outcome) -> RenderableType:
    """Make the tables of the best trials, and of the importance of each hyperparameter and the error along it."""
    names = list(outcome.space.ranges)
    best = _grid("trial", "error %", *names)
    for trial in outcome.ranked[:BEST]:
        best.add_row(str(trial.number), error(trial), *(f"{trial.values[name]:g}" for name in names))
    slices = _grid("", "effect", "values", "trials", "best %", "median %", text=1)
    for name in names:
        importance = outcome.importances.get(name)
        for place, part in enumerate(outcome.slices(name)):
            head = (name, "" if importance is None else f"{importance:.0%}") if place == 0 else ("", "")
            shown = (f"{min(part.means):.2f}", f"{statistics.median(part.means):.2f}") if part.means else ("", "")
            slices.add_row(*head, span(part), str(len(part.means)), *shown)
    parts: list[RenderableType] = [Text(f"\n{visible(outcome.name)}", "bold"), Text(compute(outcome)), best, slices]
    failed = (trial for trial in outcome.trials if trial.state == "failed")
    parts += [Text(visible(f"failed: trial {trial.number}: {trial.reason}"), "red") for trial in failed]
    return Group(*parts)


def compute(outcome: Outcome) -> str:
    """Summarise the trials, the trained draws, and the draws that pruning saved."""
    epochs = outcome.about["config"]["epochs"]
    counts = ", ".join(f"{outcome.count(state)} {state}" for state in STATES if outcome.count(state))
    return (
        f"{len(outcome.trials)} trials: {counts}. {outcome.draws} draws of {epochs} epochs trained; "
        f"pruning saved {outcome.draws_saved} ({saved(outcome):.0%}), {outcome.draws_saved * epochs} epochs."
    )


def saved(outcome: Outcome) -> float:
    """Return the share of draws that pruning saved."""
    return outcome.draws_saved / max(outcome.draws + outcome.draws_saved, 1)


def error(trial: Tried | None) -> str:
    """Write the mean ± the standard error over the draws; their number, if there is one or all are equal."""
    if trial is None or not trial.errors:
        return ""
    se = standard_error(trial.errors)
    if is_shown(se):
        return value(trial.mean, se)
    draws = len(trial.errors)
    return f"{value(trial.mean, None)} ({'1 draw' if draws == 1 else f'{draws} equal draws'})"


def span(part: Slice) -> str:
    """Write the range of a slice."""
    return "0" if part.high == 0 else f"{part.low:.3g} to {part.high:.3g}"


def write_tuned(found: Iterable[Outcome], file: Path) -> list[Key]:
    """Write the best values of each search to a file of tuned values; return the new keys.

    The file's other entries stay. A new file begins with the values that ship, so that a study with this file compares
    all models tuned.
    """
    chosen = newest(list(found))
    if not chosen:
        raise InputError("No search has a trial with all its draws yet; continue one, then write its values.")
    names = sorted({outcome.about["data"] for outcome in chosen.values()})
    shapes = {outcome.about["shape"] for outcome in chosen.values() if "shape" in outcome.about}
    if len(names) > 1 or len(shapes) > 1:
        raise InputError(
            f"The searches are of several data sets ({', '.join(names)}); search each in a folder of its own."
        )
    held = held_for(names[0], next(iter(shapes), None), file if file.exists() else None)
    new: dict[Key, Entry] = {key: outcome.entry() for key, outcome in chosen.items()}
    text = to_toml(held.data, {**held.entries, **new}, next(iter(shapes), held.shape))
    write_atomic(file, text.encode(errors="replace"))
    return list(new)


def _grid(*heads: str, text: int = 0) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0))
    for place, head in enumerate(heads):
        grid.add_column(head, justify="left" if place < text else "right")
    return grid
