"""Shared by all commands: the values of options, JSON output, and Ctrl-C."""

import csv
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from laddernet.errors import InputError
from laddernet.text import say, visible_json


def whole_number(option: str, text: str) -> int:
    """Parse an integer.

    >>> whole_number("labels", "100")
    100
    """
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or abs(number) >= 2**63:
        shown = text if len(text) <= 50 else f"{text[:50]}…"
        raise InputError(f"--{option} has {shown!r} where a whole number should be.")
    return number


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Parse integers with commas between them.

    >>> whole_numbers("hidden", "1000,500")
    (1000, 500)
    """
    return tuple(whole_number(option, part) for part in text.split(","))


def names_in(text: str) -> list[str]:
    """Parse names with commas between them, as a line of CSV.

    >>> names_in('a, "b, c"')
    ['a', 'b, c']
    """
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise InputError(f"{text!r} is not a list of names; put a name with a line break in double quotes.") from None
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def print_json(about: Any) -> None:
    """Print a value as indented JSON."""
    print(visible_json(json.dumps(about, indent=2, ensure_ascii=False)))


@contextmanager
def stoppable(sentence: str) -> Iterator[None]:
    """On Ctrl-C, print the sentence and end the process with exit code 130.

    The process ends at once: an orderly exit would wait for the training under way. A library that is interrupted may
    raise an error of its own instead of `KeyboardInterrupt`, or lose it (JAX, during garbage collection). So any error
    after Ctrl-C counts as its effect, and the signal is sent again every second.
    """
    again: threading.Timer | None = None

    def send(number: int) -> None:
        if sys.platform == "win32":
            signal.raise_signal(number)
        else:  # to the thread that handles signals, so that a waiting call returns
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal again
        again = threading.Timer(1.0, send, [number])
        again.daemon = True
        again.start()
        signal.default_int_handler(number, frame)

    # Only the main thread may set a handler, and a process in the background may ignore the signal.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = ours and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BaseException as error:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if again is None and not isinstance(error, KeyboardInterrupt):
            raise
        say(sentence)
        sys.stderr.flush()
        os._exit(130)
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if again is not None:
                again.cancel()
                again.join()
            signal.signal(signal.SIGINT, signal.default_int_handler)
