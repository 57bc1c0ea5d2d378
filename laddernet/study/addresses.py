"""Addresses of stores and storages as they may be shown and kept: without passwords, keys and tokens."""

import re
from collections.abc import Sequence

# Query parameters that hold no secret. Of every other parameter, not even the name is shown.
_HARMLESS = re.compile(
    r"(application_name|connect_timeout|dbname|host|options|port|sslcert|sslkey|sslmode|sslrootcert|user)=[^;]*"
)
_HOST = r"(\[[^]/]*\]|[^]:/?#,[]*)(:\d*)?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*(?=[/?#]|$)")


def shown(text: str) -> str:
    """Return an address, or an argument that contains one, without passwords, keys and tokens.

    A password may contain any character, also those that separate the parts of an address. In doubt, more is left out.

    >>> shown("sftp://me:se/cret@host/studies"), shown("s3://bucket/studies"), shown("/shared")
    ('sftp://…@host/studies', 's3://bucket/studies', '/shared')
    >>> shown("--store=postgresql://me@host:5432/db?sslmode=require&sslpassword=secret")
    '--store=postgresql://me@host:5432/db?sslmode=require&…'
    """
    scheme, mark, rest = text.partition("://")
    if not mark:
        return text
    user, at, place = rest.rpartition("@")
    if ":" in user:
        if set(user) & set("?#"):  # the @ may belong to the password or to the query
            return f"{scheme}{mark}…"
        user = "…"
    elif set(user) & set("/?#"):  # the @ belongs to the path or to the query
        user, at, place = "", "", rest
    if not _HOSTS.match(place):
        return f"{scheme}{mark}…"
    place, query, parameters = re.fullmatch(r"([^?#]*)([?#]?)(.*)", place, re.DOTALL).groups()  # type: ignore[union-attr]
    kept = [part for part in parameters.split("&") if query == "?" and _HARMLESS.fullmatch(part)]
    if len(kept) < len(parameters.split("&")) and parameters:
        kept.append("…")
    return f"{scheme}{mark}{user}{at}{place}{query}{'&'.join(kept)}"


def shown_all(text: str) -> str:
    """Return a message on one line, with every address in it as `shown` returns it."""
    return " ".join(map(shown, text.split()))


def has_no_password(address: str) -> bool:
    """Return whether an address may be shown and kept as it is.

    >>> has_no_password("study.db"), has_no_password("postgresql://me:secret@host/studies")
    (True, False)
    """
    return shown(address) == address


def without_passwords(command: Sequence[str], store: str | None) -> list[str]:
    """Return a command as it may be kept in a file; ``store`` is the store's address, which may be a part of it.

    >>> without_passwords(["laddernet", "study", "--store=postgresql://me:a/b@host/db"], "postgresql://me:a/b@host/db")
    ['laddernet', 'study', '--store=postgresql://…@host/db']
    """
    return [shown(part.replace(store, shown(store)) if store else part) for part in command]
