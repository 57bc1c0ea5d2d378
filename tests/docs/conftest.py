"""What the tests of the documents share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """For examples that write files."""
    with contextlib.chdir(tmp_path):
        yield tmp_path
