import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from clinic import SMALL
from support import PATIENCE, laddernet, refused

from laddernet.cli.options import stoppable, whole_number
from laddernet.errors import InputError


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


@pytest.mark.parametrize("option", ["--drop", "--use", "--category"])
def test_a_list_of_columns_with_a_line_break_is_one_sentence(tmp_path: Path, option: str, untrained: None) -> None:
    (tmp_path / "t.csv").write_text(SMALL)
    done = laddernet("fit", "t.csv", "--target", "label", option, "a\nb", cwd=tmp_path)
    refused(done, r"'a\nb' is not a list of names; put a name with a line break in double quotes.")


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_an_integer_of_many_digits_is_one_short_sentence(digits: int) -> None:
    with pytest.raises(InputError, match=r"^--hidden has '9+…?' where a whole number should be\.$") as found:
        whole_number("hidden", "9" * digits)
    assert len(str(found.value)) < 120
