"""Addresses are shown and kept without passwords, keys and tokens."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laddernet.study.addresses import shown
from laddernet.study.storage import Storage


def test_a_password_is_not_shown() -> None:
    assert shown("--storage=sftp://me:geheim@host/x") == "--storage=sftp://…@host/x"
    assert Storage("memory://me:geheim@host/x").name == "memory://…@host/x"
    assert Storage("memory://host/x?sig=geheim").name == "memory://host/x?…"


# In a query, a program that made the address has encoded what has a meaning there; in a password, perhaps not.
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=255), min_size=1, max_size=12).map(lambda s: f"<<{s}>>")

HOSTS = st.sampled_from(["host", "host:22", "[::1]:5432", "h1:1,h2:2", "127.0.0.1", ""])

PATHS = st.sampled_from(["", "/", "/db", "/a/b.c", "/a@b", "/a:b"])

BEFORE = st.sampled_from(["sftp", "--store=postgresql", "--storage=s3", "simplecache::https"])

KEYS = st.sampled_from(["password", "sslpassword", "sig", "token", "X-Amz-Signature", "key"])


@given(BEFORE, SECRETS, HOSTS, PATHS, st.sampled_from(["", "?sslmode=require", "?x=y@z"]))
def test_no_password_before_a_host_is_shown(before: str, secret: str, host: str, path: str, query: str) -> None:
    text = shown(f"{before}://me:{secret}@{host}{path}{query}")
    assert "<" not in text
    assert ">" not in text
    assert text.startswith(f"{before}://")


@given(BEFORE, st.sampled_from(["", "me@", "me:geheim@"]), HOSTS, PATHS, KEYS, SECRETS, st.booleans())
def test_no_secret_in_a_query_is_shown(
    before: str, user: str, host: str, path: str, key: str, secret: str, encoded: bool
) -> None:
    value = quote(secret, safe="") if encoded else secret.replace("&", "")
    text = shown(f"{before}://{user}{host}{path}?sslmode=require&{key}={value}")
    assert not any(mark in text for mark in ("<", ">", "%3C", "%3E", "geheim"))


@pytest.mark.parametrize(
    "harmless",
    [
        "study.db",
        "C:\\studies\\study.db",
        "postgresql://me@host:5432/db?sslmode=require&options=-csearch_path%3Da",
        "postgresql:///db?host=/tmp/pg&port=1",
        "postgresql://[::1]:5432/db",
        "s3://bucket/a@b/c",
        "abfs://container@account.dfs.core.windows.net/x",
        "file:///C:/studies",
    ],
)
def test_an_address_without_a_secret_is_shown_whole(harmless: str) -> None:
    assert shown(harmless) == harmless
