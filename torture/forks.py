"""The process that `torture.server` starts: it imports all that commands need, and forks for each batch of calls.

It computes nothing itself, because a process that JAX has given threads cannot be forked. A call that ends the process,
or hangs, ends its batch, and the server forks again for the rest.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torture.server import Accepted, Call, Ended, Fault

_SHOWN = 20_000  # characters of the output of a call


def serve() -> None:
    _import_all()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        calls = [_call(values) for values in json.loads(line)]
        done = 0
        while done < len(calls):
            done += _fork(calls[done:], replies)


def _call(values: dict[str, Any]) -> Call:
    fault = values.pop("fault")
    return Call(**values, fault=fault and Fault(**fault))


def _fork(calls: Sequence[Call], replies: Any) -> int:
    """Perform calls in a new process until it ends; reply to each; return their number."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(calls, writer)
    os.close(writer)
    done, partial = 0, b""
    ends = time.monotonic() + calls[0].seconds
    ended: dict[str, Any] = {}
    while True:
        ready, _, _ = select.select([reader], [], [], max(ends - time.monotonic(), 0))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            ended = {"hung": True}
            break
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        *lines, partial = (partial + chunk).split(b"\n")
        for line in lines:
            print(line.decode(), file=replies, flush=True)
            done += 1
            ends = time.monotonic() + (calls[done].seconds if done < len(calls) else 30)
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    if done == len(calls):
        return done
    code = os.waitstatus_to_exitcode(status)
    err = _last_output()
    result = Ended(code=max(code, 0), signal=max(-code, 0), err=err)
    print(json.dumps({**asdict(result), **ended}), file=replies, flush=True)
    return done + 1


def _last_output() -> str:
    """Return the last call's output on stderr before its process ended."""
    try:
        return _error_file().read_text(errors="replace")[:_SHOWN]
    except OSError:
        return ""


def _error_file(pid: int | None = None) -> Path:
    return Path(os.environ["LADDERNET_CACHE"]).parent / f"stderr-{pid or os.getpid()}"


def _child(calls: Sequence[Call], writer: int) -> None:
    # Named after the parent, which reads it after a kill.
    error = os.open(_error_file(os.getppid()), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    output = os.memfd_create("stdout")
    os.dup2(output, 1)
    os.dup2(error, 2)
    os.set_inheritable(1, True)
    if any(call.stubs for call in calls):
        _put_stubs()
    if any(call.inline for call in calls):
        _train_inline()
    for call in calls:
        for file in (1, 2):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
        result = _perform(call)
        data = json.dumps(
            {**result, "out": os.pread(1, _SHOWN, 0).decode(errors="replace"),
             "err": os.pread(2, _SHOWN, 0).decode(errors="replace")}
        ).encode() + b"\n"  # fmt: skip
        while data:
            data = data[os.write(writer, data) :]
    os._exit(0)


def _perform(call: Call) -> dict[str, Any]:
    from laddernet.cli.main import main

    os.chdir(call.cwd)
    stdin = os.open(call.stdin or os.devnull, os.O_RDONLY)
    os.dup2(stdin, 0)
    os.close(stdin)
    sys.argv = ["laddernet", *call.argv]
    before = _reset_peak()
    code, accepted = 0, False
    limits = {kind: resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE)}
    try:
        if call.memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + call.memory, limits[resource.RLIMIT_AS][1]))
        if call.descriptors is not None:
            used = len(os.listdir("/proc/self/fd")) - 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + call.descriptors, limits[resource.RLIMIT_NOFILE][1]))
        if call.fault is not None:
            _arm(call.fault)
        try:
            main()
        finally:
            for kind, limit in limits.items():
                resource.setrlimit(kind, limit)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except Accepted:
        accepted = True
    except BaseException:
        code = 1
        traceback.print_exc()
    counted = _disarm() if call.fault is not None else 0
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    grown = max(_status("VmHWM") - before, 0)
    return {"code": code, "accepted": accepted, "memory": grown, "calls": counted}


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _shim() -> Any:
    return ctypes.CDLL(os.environ["TORTURE_SHIM"])


def _arm(fault: Fault) -> None:
    actions = ("count", "fail", "kill", "torn", "delete", "clock", "memory")
    _shim().torture_arm(
        fault.folder.encode(),
        fault.target.encode(),
        ctypes.c_long(fault.number),
        actions.index(fault.action),
        fault.errno,
        int(fault.onwards),
        ctypes.c_double(fault.seconds),
    )


def _disarm() -> int:
    return int(_shim().torture_disarm())


def _import_all() -> None:
    """Import all modules that commands import, and compute nothing."""
    import gc

    import jax._src.xla_bridge
    import matplotlib.pyplot  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import typer

    import laddernet.classifier.fit
    import laddernet.cli.catalogue
    import laddernet.cli.fit
    import laddernet.cli.inspect
    import laddernet.cli.main
    import laddernet.cli.predict
    import laddernet.cli.study
    import laddernet.cli.train
    import laddernet.cli.tune
    import laddernet.network.ladder
    import laddernet.report.pictures
    import laddernet.report.study
    import laddernet.report.tune
    import laddernet.report.tune_page
    import laddernet.study.driver
    import laddernet.study.exchange
    import laddernet.study.ray_executor
    import laddernet.study.worker
    import laddernet.table.compare
    import laddernet.table.describe
    import laddernet.table.read
    import laddernet.table.suggest
    import laddernet.table.write
    import laddernet.training.run
    import laddernet.tune.outcome

    laddernet.cli.main._docstrings = _cached(laddernet.cli.main._docstrings)  # type: ignore[attr-defined]
    typer.main.get_command(laddernet.cli.main.app)  # parses the commands now
    assert not jax._src.xla_bridge.backends_are_initialized(), "JAX has threads already; nothing can be forked"
    gc.collect()
    gc.freeze()


def _cached(function: Any) -> Any:
    """Cache a function, so that the commands' modules are parsed once and not in each call."""
    found: dict[str, Any] = {}

    def cached(module: str, names: Sequence[str]) -> Any:
        if module not in found:
            found[module] = function(module, names)
        return found[module]

    return cached


def _put_stubs() -> None:
    """Raise `Accepted` where an input has passed all checks and training would begin."""
    import laddernet.classifier.estimator
    import laddernet.study.driver
    import laddernet.training.loop

    def accept(*_: Any, **__: Any) -> Any:
        raise Accepted

    laddernet.classifier.estimator.LadderClassifier.fit = accept  # type: ignore[method-assign]
    laddernet.training.loop.run_steps = accept  # type: ignore[attr-defined]
    laddernet.study.driver.drive = accept  # type: ignore[assignment]


def _train_inline() -> None:
    """Let studies and searches train in the driver's process, so that the shim counts all their system calls."""
    import laddernet.cli.runs
    from laddernet.study import worker

    worker._PAUSE = 0.0  # before a run is tried again: a fault of these tests does not pass by itself

    class Inline:
        slots = 1

        def __init__(self) -> None:
            self._tasks: list[tuple[int, Any]] = []

        def start(self, slot: int, task: Any) -> None:
            self._tasks.append((slot, task))

        def events(self, timeout: float) -> list[tuple[int, Any]]:
            if not self._tasks:
                time.sleep(0.05)
                return []
            slot, task = self._tasks.pop(0)
            return [(slot, worker.perform(asdict(task), lambda record: None))]

        def __getattr__(self, name: str) -> Any:
            """Do nothing for `close` and any other method of an executor without running work."""
            return lambda *_, **__: None

    laddernet.cli.runs.choose_executor = lambda *_, **__: Inline()  # type: ignore[assignment]


if __name__ == "__main__":
    serve()
