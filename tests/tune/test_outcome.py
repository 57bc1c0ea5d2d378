"""The results of a search: which values are chosen."""

import pytest

from laddernet.tune.outcome import Outcome, Tried


@pytest.mark.parametrize(
    ("untuned", "best", "chosen"),
    [
        ([5.0, 6.0, 7.0], [4.0, 5.0, 6.1], 1),  # ahead on every draw by about as much
        ([5.0, 6.0, 7.0], [2.0, 6.9, 8.0], 0),  # ahead by one lucky draw
        ([5.0, 6.0, 7.0], [5.0, 6.0, 7.0], 0),
        ([5.0], [4.9], 1),
    ],
)
def test_values_that_are_ahead_by_chance_are_not_chosen(untuned: list[float], best: list[float], chosen: int) -> None:
    tried = [Tried(0, "complete", {}, {}, untuned), Tried(1, "complete", {}, {}, best)]
    assert Outcome("", {"starts_untuned": True}, tried, {}, "").chosen.number == chosen
