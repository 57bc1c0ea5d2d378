"""A mirror and npm that can be made to misbehave."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mirrors import Mirror
from support import PATIENCE


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
