"""The report of a search."""

from laddernet.report.tune import error
from laddernet.report.tune_page import page
from laddernet.tune.outcome import Outcome, Tried


def test_one_draw_or_equal_ones_are_not_shown_as_certain() -> None:
    shown = [error(Tried(0, "complete", {}, {}, errors)) for errors in ([7.0], [7.0, 7.0], [7.0, 8.0])]
    assert shown == ["7.00 (1 draw)", "7.00 (2 equal draws)", "7.5 ± 0.5"]


def test_everything_on_the_page_is_escaped() -> None:
    nasty = '<img src=x onerror="alert(1)">'
    space = {"ranges": {nasty: {"low": 0.1, "high": 1.0, "grid": []}}, "fixed": {}}
    about = {"data": nasty, "labels": 1, "model": nasty, "draws": 1, "command": nasty, "space": space}
    about |= {"config": {"epochs": 1}, "starts_untuned": True}
    tried = [Tried(0, "complete", {nasty: 0.5}, {}, [1.0]), Tried(1, "failed", {nasty: 0.5}, {}, [], nasty)]
    html = page([Outcome(nasty, about, tried, {nasty: 1.0}, "")])
    assert "<img" not in html
    assert html.count("&lt;img") >= 7
