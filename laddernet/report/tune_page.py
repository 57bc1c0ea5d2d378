"""The searches as one HTML file that needs no network and runs no script, in the dress of the study's page."""

import html
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from string import Template

from laddernet.report.page import allowed, asset
from laddernet.report.tune import BEST, compute, error
from laddernet.tune.outcome import Outcome, Tried
from laddernet.tune.space import Range

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 300, 180, 40, 34


def page(found: Sequence[Outcome]) -> str:
    """One self-contained HTML document. All that a user may have named is escaped."""
    style = asset("page.css") + asset("tune.css")
    places = [f"search-{place}" for place in range(len(found))]
    return Template(asset("tune.html")).substitute(
        policy=f"default-src 'none'; style-src {allowed(style)}; img-src data:; base-uri 'none'; form-action 'none'",
        style=style,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        searches=len(found),
        trials=sum(len(outcome.trials) for outcome in found),
        saved=sum(outcome.draws_saved for outcome in found),
        draws=sum(outcome.draws for outcome in found),
        rows="\n".join(_row(outcome, place) for outcome, place in zip(found, places, strict=True)),
        sections="\n".join(_section(outcome, place) for outcome, place in zip(found, places, strict=True)),
    )


def _row(outcome: Outcome, place: str) -> str:
    best, untuned = outcome.ranked[:1], outcome.untuned
    cells = [
        outcome.about["data"],
        outcome.about["labels"],
        error(best[0]) if best else "",
        error(untuned) if untuned else "",
        len(outcome.trials),
        outcome.count("pruned"),
        outcome.count("failed"),
        outcome.draws,
        outcome.draws_saved,
    ]
    link = f'<a href="#{place}">{_text(outcome.about["model"])}</a>'
    return f'<tr><th scope="row">{link}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in cells)}</tr>'


def _section(outcome: Outcome, place: str) -> str:
    names = list(outcome.space.ranges)
    heads = "".join(f'<th scope="col">{_text(head)}</th>' for head in ("trial", "error %", *names))
    rows = "".join(
        f"<tr><td>{trial.number}</td><td>{error(trial)}</td>"
        + "".join(f"<td>{trial.values[name]:g}</td>" for name in names)
        + "</tr>"
        for trial in outcome.ranked[:BEST]
    )
    failed = "".join(
        f"<li>trial {trial.number} failed: {_text(trial.reason)}</li>"
        for trial in outcome.trials
        if trial.state == "failed"
    )
    return f"""<section id="{place}" aria-labelledby="{place}-title">
<h2 id="{place}-title">{_text(outcome.about["model"])}</h2>
<p>{_text(outcome.name)}. {_text(compute(outcome))}</p>
<details class="command"><summary>The command</summary>
<pre tabindex="0">{_text(outcome.about["command"])}</pre></details>
<h3>Best trials</h3>
<div class="scroll" tabindex="0"><table class="plain"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>
<h3>Slices</h3>
<p>A dot is a trial: its value and its mean validation error in per cent. Hollow: pruned, a mean over fewer draws.
The bar is how much of the effect the hyperparameter has among the trials with all draws.</p>
<div class="panels">{"".join(_figure(outcome, name) for name in names)}</div>
<ul class="notes">{failed}</ul>
</section>"""


def _figure(outcome: Outcome, name: str) -> str:
    share = outcome.importances.get(name)
    bar = (
        ""
        if share is None
        else f'<svg class="share" viewBox="0 0 100 7" width="100" height="7" role="img" aria-label="{share:.0%}">'
        f'<rect class="track-all" width="100" height="7"/>'
        f'<rect class="track-share" width="{100 * share:.1f}" height="7"/>'
        f"</svg><span>{share:.0%} of the effect</span>"
    )
    return f"<figure><figcaption>{_text(name)} {bar}</figcaption>{_scatter(outcome, name)}</figure>"


def _scatter(outcome: Outcome, name: str) -> str:
    r = outcome.space.ranges[name]
    trials = [trial for trial in outcome.trials if trial.errors and trial.state in ("complete", "pruned")]
    top = max((trial.mean for trial in trials), default=1.0)
    low = min((trial.mean for trial in trials), default=0.0)
    high = low + max(top - low, 1e-9)
    dots = "".join(
        f'<circle class="{trial.state}" r="4" '
        f'cx="{_x(r, trial.values[name]):.1f}" cy="{_y(trial.mean, low, high):.1f}">'
        f"<title>trial {trial.number}: {trial.values[name]:g}, {trial.mean:.2f} %</title></circle>"
        for trial in sorted(trials, key=_hollow_first)
    )
    ticks = ([0.0] if r.zero else []) + [r.low, r.high]
    axis = "".join(f'<text x="{_x(r, t):.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{t:g}</text>' for t in ticks)
    axis += "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{_y(t, low, high):.1f}" y2="{_y(t, low, high):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{_y(t, low, high) + 4:.1f}" text-anchor="end">{t:.1f}</text>'
        for t in dict.fromkeys((low, (low + high) / 2, high))
    )
    label = f"Validation error against {_text(name)}, {len(trials)} trials"
    box = f'viewBox="0 0 {_WIDTH + 10} {_HEIGHT}" width="{_WIDTH + 10}" height="{_HEIGHT}"'
    return f'<svg {box} role="img" aria-label="{label}"><g class="axis">{axis}</g>{dots}</svg>'


def _hollow_first(trial: Tried) -> tuple[bool, int]:
    return trial.state == "complete", trial.number


def _x(r: Range, value: float) -> float:
    scale = math.log if r.log else float
    start, end = scale(r.floor), scale(r.high)
    return _LEFT + 8 + (_WIDTH - _LEFT - 16) * (scale(max(r.drawn(value), r.floor)) - start) / (end - start)


def _y(mean: float, low: float, high: float) -> float:
    return 10 + (_HEIGHT - _BOTTOM - 14) * (high - mean) / (high - low)


def _text(value: object) -> str:
    return html.escape(str(value).encode(errors="replace").decode())
