"""Text in CSV that no spreadsheet takes for a formula."""

import re

# Also after what separates cells: where the comma is a decimal point, a spreadsheet splits at the semicolon.
_PLACE = r"(^|[,;\"])"
_FORMULA = r"([\s']*[=+@＝＋－＠-]|'*[\t\r\n\0])"  # also behind a ', so that what is put there can be taken away
_BARE = re.compile(_PLACE + _FORMULA)
_QUOTED = re.compile(f"{_PLACE}'{_FORMULA}")


def quoted(text: str) -> str:
    """Put a ' before what a spreadsheet would compute, and before a ' that `unquoted` would take away.

    >>> [quoted(text) for text in ("=1+1", "x;@y", "'=1", "a-b")]
    ["'=1+1", "x;'@y", "''=1", 'a-b']
    """
    return _BARE.sub(r"\1'\2", text)


def unquoted(text: str) -> str:
    """Take away what `quoted` has put there.

    >>> [unquoted(quoted(text)) for text in ("=1+1", "x;@y", "'=1", "don't")]
    ['=1+1', 'x;@y', "'=1", "don't"]
    """
    return _QUOTED.sub(r"\1\2", text) if "'" in text else text
