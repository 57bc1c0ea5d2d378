"""Text made safe for terminals, which obey control characters, and for spreadsheets, which compute formulas."""

import json
import re
import sys

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


# --- Terminals --------------------------------------------------------------------------------

_ENDLESS = re.compile(r"(\S{100})\S{900,}")  # a cell or a column's name that somebody forgot to close


def say(sentence: str) -> None:
    """Print one line on stderr, also if a name in it has a line break or thousands of characters."""
    print(visible(_ENDLESS.sub(r"\1…", sentence.replace("\n", " "))), file=sys.stderr)


def show(line: str, *, flush: bool = False) -> None:
    """Print one line on stdout, whatever the names in it hold."""
    print(visible(line), flush=flush)


def visible(text: str) -> str:
    r"""Escape what a terminal would obey or hide: controls, changes of direction, invisible characters, stray bytes.

    >>> print(visible("a\x1b[31m b\u202e ä\n"))
    a\x1b[31m b\u202e ä\n
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_json(text: str) -> str:
    r"""Escape the same in JSON that is indented, in JSON's own way.

    >>> visible_json('"\x9b1m"')
    '"\\u009b1m"'
    """
    escaped = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    return "".join(escaped).replace("\x7f", "\\u007f")  # which JSON does not escape
