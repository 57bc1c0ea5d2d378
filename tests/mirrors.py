"""A real HTTP server on this machine that can be made to misbehave, and the files that it serves."""

import gzip
import hashlib
import random
import threading
from pathlib import Path

from laddernet.data.download import RemoteFile, ensure

# Random bytes do not compress: what is sent is as long as what is kept, and takes several chunks.
CONTENT = {"images": random.Random(0).randbytes(200_000), "labels": random.Random(1).randbytes(500)}

FILES = [RemoteFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items()]

PACKED = {name: gzip.compress(content, mtime=0) for name, content in CONTENT.items()}


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


def fetch(folder: Path, *mirrors: str) -> None:
    ensure(FILES, folder, mirrors=mirrors, npm_package="set@1.0.0")


def assert_complete(folder: Path) -> None:
    """The right files, and nothing else but the lock."""
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"} == CONTENT
