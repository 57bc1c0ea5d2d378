"""Numbers as text, by one rule for all tables and pages of studies: ± is a standard error, which sets the decimals."""

import math

ABSENT = "–"
MOST = 3  # decimals: those of the paper
WITHOUT_SE = 2  # decimals of a mean whose standard error is unknown


def decimals(se: float | None) -> int:
    """Return the number of decimals for a standard error and its mean.

    The rule is that of the Particle Data Group: a standard error has two digits if the first three are 100 to 354, else
    one.

    >>> [decimals(se) for se in (58.0, 3.2, 0.853, 0.058, 0.023, 0.0097, 0.0033, None)]
    [0, 1, 1, 2, 3, 3, 3, 2]
    """
    if se is None or not is_shown(se):
        return WITHOUT_SE
    exponent = math.floor(math.log10(se))
    two_digits = round(se / 10.0**exponent, 2) <= 3.54
    return min(max(two_digits - exponent, 0), MOST)


def is_shown(se: float | None) -> bool:
    """Return whether a standard error is known: runs with equal errors by chance do not make their mean certain."""
    return se is not None and round(se, MOST) > 0


def value(mean: float | None, se: float | None) -> str:
    """Write a mean ± its standard error.

    >>> [value(22.97, 0.853), value(1.0861, 0.0231), value(1.18, None), value(None, None)]
    ['23.0 ± 0.9', '1.086 ± 0.023', '1.18', '–']
    """
    if mean is None:
        return ABSENT
    return f"{minus(f'{mean:z.{decimals(se)}f}')}{_plus_minus(se)}"


def difference(mean: float | None, se: float | None) -> str:
    """Write a difference with its sign ± its standard error.

    >>> [difference(-0.0061, 0.0421), difference(0.0001, None)]
    ['−0.01 ± 0.04', '+0.00']
    """
    return ABSENT if mean is None else f"{signed(mean, se)}{_plus_minus(se)}"


def signed(number: float, se: float | None) -> str:
    """Write a number with its sign, in the decimals that fit its standard error."""
    return minus(f"{number:+z.{decimals(se)}f}")


def minus(number: str) -> str:
    """Replace the hyphen before a number by a minus sign."""
    return number.replace("-", "−")


def chance(p: float) -> str:
    """Write a p-value in two digits.

    >>> chance(0.0004), chance(0.0312), chance(0.9999)
    ('p < 0.001', 'p = 0.031', 'p = 1')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _plus_minus(se: float | None) -> str:
    return f" ± {se:.{decimals(se)}f}" if is_shown(se) else ""
