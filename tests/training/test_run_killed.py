"""Real processes, killed and interrupted. Each takes seconds to start, so they are few."""

import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import OPTIONS, PATIENCE, contents, held, laddernet, wait_for

pytestmark = pytest.mark.process

EPOCHS = 80
COMMAND = ("train", *OPTIONS, "--epochs", str(EPOCHS), "--checkpoint-every", "0", "--out", "run")
# As conftest does: no waiting for the disk. And Ctrl-C is received, even where the tests run in the background.
PROGRAM = """
import os, signal
os.fsync = lambda descriptor: None
signal.signal(signal.SIGINT, signal.default_int_handler)
from laddernet.cli.main import main
main()
"""
AT_MOST = 12  # checkpoints of a process: five that are killed leave some of the epochs for the last


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert laddernet(*COMMAND, cwd=folder).code == 0
    return contents(folder / "run")


def assert_ended_as(undisturbed: dict[str, bytes], folder: Path) -> None:
    ended = contents(folder)
    assert ended.keys() == undisturbed.keys()
    for name in ("weights.safetensors", "metrics.csv", "config.json", "command.txt"):
        assert ended[name] == undisturbed[name], name


@contextmanager
def process(cwd: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = [sys.executable, "-c", PROGRAM, *COMMAND]
    with subprocess.Popen(
        arguments,
        cwd=cwd,
        env=held(cwd / "hold", AT_MOST),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def newest_checkpoint(folder: Path) -> int:
    """The epoch of a run's newest checkpoint; 0 if it has none."""
    return max((int(path.stem.removeprefix("epoch-")) for path in folder.glob("run/checkpoints/*.json")), default=0)


def wait_for_checkpoint(started: subprocess.Popen[str], folder: Path, epoch: int) -> None:
    wait_for(lambda: newest_checkpoint(folder) >= epoch, started.poll)


def written_by(folder: Path) -> int | None:
    """A number that changes as soon as another process has taken the run up."""
    path = folder / "run" / "environment.json"
    return path.stat().st_ino if path.exists() else None


def test_a_run_killed_again_and_again_ends_with_the_same_bits(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    moments = random.Random(0)
    reached = []
    for kill in range(5):
        before, writer = newest_checkpoint(tmp_path), written_by(tmp_path)
        with process(tmp_path) as started:
            if kill in (0, 2):  # while it starts, or takes up what the last one left
                wait_for(lambda writer=writer: written_by(tmp_path) != writer, started.poll)
            else:
                wait_for_checkpoint(started, tmp_path, before + moments.randint(1, AT_MOST))
            started.kill()
            assert started.wait() == -signal.SIGKILL
        reached.append(newest_checkpoint(tmp_path))
    assert reached == sorted(reached)
    assert len(set(reached)) >= 3
    assert laddernet(*COMMAND, cwd=tmp_path).code == 0
    assert_ended_as(undisturbed, tmp_path / "run")


def test_ctrl_c_says_how_to_resume_and_a_second_process_is_kept_out(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    with process(tmp_path) as started:
        wait_for_checkpoint(started, tmp_path, 1)
        second = laddernet(*COMMAND, cwd=tmp_path)
        assert started.poll() is None
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=PATIENCE)
    sentence = "Another process is training in run; wait for it or choose another --out."
    assert second == (2, "", f"laddernet: {sentence}\n")

    assert (started.returncode, out) == (130, ""), err
    said, _, command = err.rstrip("\n").partition(" To go on: ")
    assert said == "Stopped; run keeps the run up to its last checkpoint."
    program, *arguments = shlex.split(command)
    assert (program, *arguments) == ("laddernet", *COMMAND)
    assert newest_checkpoint(tmp_path)
    assert not (tmp_path / "run" / "result.json").exists()

    assert laddernet(*arguments, cwd=tmp_path).code == 0
    assert_ended_as(undisturbed, tmp_path / "run")
