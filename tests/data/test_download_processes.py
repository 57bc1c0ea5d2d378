"""Fetching in several processes, and its progress on a terminal."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from mirrors import FILES, Mirror, assert_complete, fetch
from support import PATIENCE, wait_for

import laddernet.data

pytestmark = pytest.mark.process

SOURCE = Path(laddernet.data.__file__).parents[2]

FETCH = f"""
import sys, time
from pathlib import Path
from laddernet.data.download import RemoteFile, ensure
folder, mirror, me, go = sys.argv[1:]
Path(me).touch()
while not Path(go).exists():
    time.sleep(0.005)
ensure({FILES!r}, Path(folder), mirrors=[mirror], npm_package="set@1.0.0")
"""


def start_fetch(folder: Path, mirror: Mirror, me: Path, go: Path, stderr: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", FETCH, str(folder), mirror.url, str(me), str(go)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "TERM": "xterm"}
    return subprocess.Popen(command, env=environment, stderr=stderr)


def test_of_two_processes_one_fetches_and_both_have_the_files(mirror: Mirror, folder: Path, tmp_path: Path) -> None:
    mirror.seconds = 0.2
    ready, go = [tmp_path / "first", tmp_path / "second"], tmp_path / "go"
    processes = [start_fetch(folder, mirror, me, go, subprocess.PIPE) for me in ready]
    wait_for(lambda: all(me.exists() for me in ready))
    go.touch()
    assert [process.communicate(timeout=PATIENCE)[1] for process in processes] == [b"", b""]
    assert [process.returncode for process in processes] == [0, 0]
    assert_complete(folder)
    assert mirror.paths() == ["/images.gz", "/labels.gz"]


def test_a_killed_process_leaves_no_lock_and_the_next_continues_its_download(
    mirror: Mirror, folder: Path, tmp_path: Path
) -> None:
    mirror.cut_after = [150_000]
    mirror.stalls.set()
    part = folder / "images.gz.part"
    process = start_fetch(folder, mirror, tmp_path / "me", tmp_path, subprocess.DEVNULL)
    wait_for(lambda: part.exists() and part.stat().st_size > 100_000)
    process.kill()
    process.wait(timeout=PATIENCE)
    mirror.stalls.clear()
    size = part.stat().st_size
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.asked[1] == ("/images.gz", f"bytes={size}-")


def test_progress_shows_on_a_terminal(mirror: Mirror, folder: Path, tmp_path: Path) -> None:
    reader, terminal = pty.openpty()
    process = start_fetch(folder, mirror, tmp_path / "me", tmp_path, terminal)
    os.close(terminal)
    shown = b""
    try:
        while received := os.read(reader, 4096):
            shown += received
    except OSError:  # how Linux says that the last process has left the terminal
        pass
    os.close(reader)
    assert process.wait(timeout=PATIENCE) == 0
    assert b"images" in shown


def test_progress_is_silent_elsewhere(mirror: Mirror, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(folder, mirror.url)
    assert capfd.readouterr() == ("", "")
