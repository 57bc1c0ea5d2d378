"""Storage for the files of runs on other machines: a folder that all machines share, or an address of fsspec.

A run is trained in a folder of its machine, and mirrored to the storage. Each file is written completely or not at all,
and in an order in which an interrupted mirror is never mistaken for a complete one: the configuration first, arrays
before the record with their checksum, the result last.
"""

import os
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from laddernet.errors import InputError, packages
from laddernet.files import write_atomic
from laddernet.study.addresses import shown, shown_all

_MARK = ".laddernet-storage"  # holds a random id, by which machines check that they see the same storage
_TRIES = 5


class Storage:
    """A folder, or an address of fsspec.

    >>> import tempfile
    >>> storage = Storage(tempfile.mkdtemp())
    >>> storage.write("runs/a/config.json", b"{}")
    >>> storage.names("runs/a"), storage.read("runs/a/config.json")
    (['config.json'], b'{}')
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        with packages("Storage"):
            from fsspec.core import url_to_fs
            from fsspec.implementations.local import LocalFileSystem
        self.name = shown(str(where))
        try:
            self._files, root = url_to_fs(str(where))
        except (ImportError, ValueError) as error:  # a missing package, or an unknown protocol
            advice = "name a folder, or install what fsspec needs for this address"
            raise InputError(f"Cannot use the storage {self.name} ({_line(error, str(where))}); {advice}.") from error
        self._root = str(root).rstrip("/")
        self.folder = Path(self._root) if isinstance(self._files, LocalFileSystem) else None
        self.url = str(self.folder or where)  # valid on other machines too

    def identity(self) -> str:
        """Return the random id of this storage; write one if there is none, which checks that files can be written."""
        try:
            found = self.look()
            if found is None:
                self.write(_MARK, uuid.uuid4().hex.encode())
                found = self.look()
        except Exception as error:  # the packages of fsspec have no exception in common
            advice = "name a folder or address that exists, may be written to and has space"
            raise InputError(f"Cannot use the storage {self.name} ({_line(error, self.url)}); {advice}.") from error
        return found or ""

    def look(self) -> str | None:
        """Return the random id of this storage, or None if none was written."""
        return self.read(_MARK).decode() if self._files.exists(f"{self._root}/{_MARK}") else None

    def names(self, folder: str) -> list[str]:
        """Return the paths of the files below a folder, without temporary files, which begin with a dot."""
        return sorted((str(path) for path in self._below(folder) if not path.name.startswith(".")), key=_order)

    def keep_only(self, folder: str, names: Collection[str]) -> None:
        """Remove all other files from a folder, also the temporary files of writers that were killed."""
        for path in self._below(folder):
            if str(path) not in names:
                self.remove(f"{folder}/{path}")
        if self.folder is not None:
            for below in (self.folder / folder).glob("*/"):
                with suppress(OSError):  # it holds files
                    below.rmdir()

    def _below(self, folder: str) -> list[PurePosixPath]:
        self._files.invalidate_cache()
        above = PurePosixPath(self._root, folder)
        return [PurePosixPath(found).relative_to(above) for found in self._files.find(str(above))]

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        content: bytes = self._files.cat_file(f"{self._root}/{name}")
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file completely or not at all."""
        path = f"{self._root}/{name}"
        self._files.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        if self.folder is not None:  # fsspec would move it from another disk, which is not atomic
            write_atomic(path, content)
            return
        with self._files.transaction, self._files.open(path, "wb") as file:
            file.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        path = f"{self._root}/{name}"
        if self._files.exists(path):
            self._files.rm_file(path)
        if self.folder is not None:
            with suppress(OSError):  # it holds other files
                Path(path).parent.rmdir()


class Mirror:
    """A run's folder on this machine and its copy in a storage."""

    def __init__(self, storage: Storage, name: str, folder: Path) -> None:
        self._storage = storage
        self._name = name
        self._folder = folder
        self._same: dict[str, Any] = {}  # time and size of each file when both were the same

    def pull(self) -> None:
        """Copy all files from the storage."""
        for left in reversed(range(_TRIES)):
            try:
                for name in self._storage.names(self._name):
                    path = self._folder / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(path, self._storage.read(f"{self._name}/{name}"))
                    self._same[name] = _look(path)
                return
            except FileNotFoundError:  # an earlier attempt still runs and has replaced the checkpoint
                if not left:
                    raise

    def finish(self) -> None:
        """Copy new files to the storage, and remove all others there, which earlier attempts may have left."""
        self._send(lambda name: True)
        self._storage.keep_only(self._name, self._same.keys())

    def push(self) -> None:
        """Copy new files to the storage, and remove files there that this mirror has copied and that are gone here.

        Nothing is copied if another attempt has finished the run while this machine was suspended. The metrics, one
        file that grows with each epoch, are copied only at the end: an attempt that is suspended here could otherwise
        overwrite those of the finished run. Checkpoints contain them, too.
        """
        if "result.json" not in self._storage.names(self._name):
            self._send(lambda name: name != "metrics.csv")

    def _send(self, is_wanted: Callable[[str], bool]) -> None:
        paths = [path for path in self._folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        here = {path.relative_to(self._folder).as_posix(): path for path in paths}
        for name in sorted(here, key=_order):
            look = _look(here[name])
            if is_wanted(name) and self._same.get(name) != look:
                self._storage.write(f"{self._name}/{name}", here[name].read_bytes())
                self._same[name] = look
        for name in sorted(self._same.keys() - here.keys(), key=_order, reverse=True):
            self._storage.remove(f"{self._name}/{name}")
            del self._same[name]


def _order(name: str) -> tuple[int, str]:
    return {"config.json": 0, "result.json": 3}.get(name, 2 if name.endswith(".json") else 1), name


def _look(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _line(error: Exception, where: str) -> str:
    return shown_all(str(error).replace(where, shown(where))) or type(error).__name__
