import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laddernet.report.numbers import chance, decimals, difference, is_shown, value


def digits(se: float) -> int:
    """The significant digits of the Particle Data Group's rule, from the first three digits."""
    first_three = int(f"{se:.2e}".replace(".", "")[:3])
    return 2 if first_three <= 354 else 1


@given(st.floats(1e-3, 1e2))
def test_a_standard_error_has_the_digits_of_the_rule(se: float) -> None:
    kept = min(max(digits(se) - 1 - math.floor(math.log10(float(f"{se:.2e}"))), 0), 3)
    assert decimals(se) == kept


@given(st.floats(0, 100), st.floats(0.0006, 50))
def test_the_mean_and_its_standard_error_have_the_same_decimals(mean: float, se: float) -> None:
    texts = [text.partition(".")[2] for text in value(mean, se).split(" ± ")]
    assert len(texts[0]) == len(texts[1]) <= 3


@given(st.floats(0, 100), st.floats(0.0006, 50))
def test_no_digit_that_the_standard_error_supports_is_lost(mean: float, se: float) -> None:
    shown = [float(text) for text in value(mean, se).split(" ± ")]
    assert abs(shown[0] - mean) <= 0.51 * se or abs(shown[0] - mean) <= 0.00051
    assert shown[1] == pytest.approx(se, rel=0.15, abs=0.00051)


@pytest.mark.parametrize("se", [None, 0.0, 0.0004])
def test_an_unknown_spread_is_not_shown(se: float | None) -> None:
    assert not is_shown(se)
    assert (value(1.5, se), difference(-0.25, se)) == ("1.50", "−0.25")


def test_a_difference_of_nought_has_no_minus() -> None:
    assert difference(-0.0001, 0.01) == "+0.000 ± 0.010"
    assert value(-0.0, None) == "0.00"


@pytest.mark.parametrize(("p", "shown"), [(0.0, "p < 0.001"), (0.0501, "p = 0.05"), (0.25, "p = 0.25"), (1.0, "p = 1")])
def test_a_p_value_has_two_digits(p: float, shown: str) -> None:
    assert chance(p) == shown
