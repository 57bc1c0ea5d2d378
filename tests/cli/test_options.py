import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support import PATIENCE

from laddernet.cli.options import stoppable


@pytest.fixture
def interruptible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C as a terminal has it, and an end of the process that a test survives."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_as_such_even_if_a_library_makes_another_error_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    def library() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("INTERNAL") from None

    with pytest.raises(SystemExit) as ended, stoppable("Stopped."):
        library()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped.\n"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_that_a_library_loses_is_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    def library() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not threading.Event().wait(PATIENCE)

    with pytest.raises(SystemExit) as ended, stoppable("Stopped."):
        library()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Stopped.\n"


@pytest.mark.usefixtures("interruptible")
def test_an_error_without_ctrl_c_stays_what_it_is() -> None:
    with pytest.raises(RuntimeError, match="of its own"), stoppable("Stopped."):
        raise RuntimeError("of its own")
