"""The progress of a fit."""

import re

import pytest
from iris import fit


def test_it_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    fit(verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"step 256 of 256: cost \d+\.\d{3}", lines[-1])
    assert 5 <= len(lines) <= 10
