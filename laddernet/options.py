"""What commands have in common: how they read their options, and how they speak up."""

import sys

from laddernet.errors import InputError


def whole_number(option: str, text: str) -> int:
    """
    >>> whole_number("labels", "100")
    100
    """
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--{option} has {text!r} where a whole number should be.") from None


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """
    >>> whole_numbers("hidden", "1000,500")
    (1000, 500)
    """
    return tuple(whole_number(option, part) for part in text.split(","))


def say(sentence: str) -> None:
    """One line on stderr, also if a name in it has a line break."""
    print(sentence.replace("\n", " "), file=sys.stderr)
