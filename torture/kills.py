"""Kill drivers, workers, Ray nodes and PostgreSQL at random moments, until the work is done.

Each campaign starts one or several commands, sends signals at random moments (after a checkpoint, or while a process
starts), starts again what has ended, and compares the end with that of the undisturbed command, bit by bit: no result
is lost, none is recorded twice, and a result that has been written once stays. Most suspensions last longer than the
lease, which is short here; briefer ones are counted apart.
"""

import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from torture.common import ROOT, Failure, Options, Outcome, complaint, describe, environment, keep, last_line
from torture.state import State, difference, rows, state

COUNT, LONG_COUNT = 100, 1_100  # signals
PER_CAMPAIGN, LONG_PER_CAMPAIGN = 12, 25
AT_ONCE = 3  # campaigns
LEASE = 3.0  # seconds
_RAY_PATIENCE = 8.0  # seconds after which Ray counts a node as dead, with the settings below
PATIENCE = 900.0  # seconds without progress that count as a hang, also on a busy machine
_LIVES = 60.0  # seconds that a process may take to end
_REFUSALS = 30  # consecutive ends with a sentence, without progress, that count as a hang
_BRIEFLY = "briefly"

# The driver with shorter leases, and without a limit on the attempts of a run.
ENTRY = f"""
import os
from laddernet.study import driver, store
assert hasattr(driver, "HEARTBEAT") and hasattr(driver, "_LOSSES")
driver.HEARTBEAT, driver._LOSSES = 0.5, 10**9
store.Store.open.__func__.__kwdefaults__["lease"] = {LEASE}
from laddernet.cli.main import main
main()
"""

SMALL = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--checkpoint-every", "0")
TRAIN = ("train", *SMALL, "--epochs", "400", "--out", "work")
STUDY = ("study", "--models", "vanilla,baseline-noise", "--seeds", "2", *SMALL, "--epochs", "120", "--jobs", "2")
TUNE = (
    "tune",
    "vanilla",
    *SMALL,
    "--epochs",
    "60",
    "--trials",
    "4",
    "--draws",
    "2",
    "--sampler",
    "random",
    "--no-prune",
)


@dataclass(frozen=True)
class Campaign:
    """Commands that are disturbed together, and the processes that get signals."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    reference: str
    victims: dict[str, int]
    kills: int | None = None  # instead of PER_CAMPAIGN


_SERVER = {"SIGKILL PostgreSQL": 12, "SIGKILL PostgreSQL backend": 8, "SIGSTOP PostgreSQL": 10}
_LOCAL = {"SIGKILL worker": 55, "SIGKILL driver": 25, "SIGSTOP worker": 8, "SIGSTOP driver": 12}
CAMPAIGNS = {
    "train": Campaign("train", (TRAIN,), "train", {"SIGKILL driver": 85, "SIGSTOP driver": 15}),
    "study": Campaign("study", ((*STUDY, "--out", "work"),), "study", _LOCAL),
    "two drivers, one folder": Campaign("two drivers, one folder", ((*STUDY, "--out", "work"),) * 2, "study", _LOCAL),
    "three drivers, one store": Campaign(
        "three drivers, one store",
        tuple((*STUDY, "--store", "shared.db", "--out", f"work{n}") for n in range(3)),
        "study",
        {**_LOCAL, "SIGSTOP driver": 20},
    ),
    "tune": Campaign("tune", ((*TUNE, "--jobs", "2", "--out", "work"),), "tune", _LOCAL),
    "two searches, one folder": Campaign(
        "two searches, one folder", ((*TUNE, "--jobs", "1", "--out", "work"),) * 2, "tune", _LOCAL
    ),
    "PostgreSQL": Campaign(
        "PostgreSQL",
        tuple((*STUDY, "--store", "{server}", "--out", f"work{n}") for n in range(2)),
        "study",
        {**_LOCAL, **_SERVER},
    ),
    "two searches, PostgreSQL": Campaign(
        "two searches, PostgreSQL",
        tuple((*TUNE, "--jobs", "1", "--store", "{server}", "--out", f"work{n}") for n in range(2)),
        "tune",
        {**_LOCAL, **_SERVER},
    ),
    "Ray": Campaign(
        "Ray",
        ((*STUDY[:-2], "--executor", "ray", "--address", "{ray}", "--out", "work"),),
        "study",
        {
            "SIGKILL Ray worker": 25,
            "SIGSTOP Ray worker": 10,
            "SIGKILL Ray node": 25,
            "SIGSTOP Ray node": 20,
            "SIGKILL driver": 20,
            "SIGSTOP driver": 10,
            "SIGKILL Ray bridge": 10,
        },
        kills=8,
    ),
}


def run(asked: Options, shim: Path | None) -> Outcome:
    outcome = Outcome()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # so that each run has one core, also on Ray
    (asked.work / "cache").mkdir(parents=True, exist_ok=True)
    wanted = asked.count or (LONG_COUNT if asked.long else COUNT)
    names = [name for name in CAMPAIGNS if name not in _missing()]
    if asked.kind:
        names = [asked.kind]
    numbers = iter(asked.cases or count())
    references = {name: _refer(asked, name) for name in {CAMPAIGNS[name].reference for name in names}}
    turn = Lock()

    def perform() -> None:
        while True:
            with turn:
                number = next(numbers, None)
                enough = not asked.cases and _signals(outcome) >= wanted
                if number is None or (enough and number >= len(names)):  # each campaign runs at least once
                    return
            campaign = CAMPAIGNS[names[number % len(names)]]
            kills = campaign.kills or (LONG_PER_CAMPAIGN if asked.long else PER_CAMPAIGN)
            Disturbed(asked, number, campaign, min(kills, wanted), references[campaign.reference], outcome).run()
            asked.on_case(f"{_signals(outcome):,} of {wanted:,} signals, {len(outcome.failures)} failures")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for worker in [pool.submit(perform) for _ in range(AT_ONCE)]:
            worker.result()
    return outcome


def _signals(outcome: Outcome) -> int:
    """Count the signals, without brief suspensions."""
    counts = outcome.counts.items()
    return sum(count for what, count in counts if what.startswith("SIG") and not what.endswith(_BRIEFLY))


def _missing() -> list[str]:
    """List the campaigns whose programs are not installed."""
    from importlib.util import find_spec

    missing = [] if _postgres_programs() else ["PostgreSQL"]
    return missing if find_spec("ray") else [*missing, "Ray"]


def _refer(asked: Options, name: str) -> State:
    """The results of the undisturbed command."""
    folder = asked.work / "references" / name
    folder.mkdir(parents=True)
    argv = {"train": TRAIN, "study": (*STUDY, "--out", "work"), "tune": (*TUNE, "--jobs", "2", "--out", "work")}[name]
    command = [sys.executable, "-c", ENTRY, *argv]
    done = subprocess.run(command, cwd=folder, env=environment(asked.work), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{describe(argv)} should end well: {done.stderr}")
    return _result(folder, ["work"], None)


def _result(folder: Path, outs: list[str], url: str | None) -> State:
    """Read the results to compare: each run's files by the name of its folder, the tables, the store."""
    found: State = {}
    for out in outs:
        files = state(folder / out)
        for name, value in files.items():
            # A run that this driver began may have been finished by another, in its folder.
            if "runs/" in name and f"{name.rpartition('/')[0]}/result.json" not in files:
                continue
            kept = (
                "table.csv",
                "table.md",
                "table.tex",
                "weights.safetensors",
                "metrics.csv",
                "config.json",
                "result.json",
            )
            if name.endswith(kept):
                found.setdefault(name, value)
                if found[name] != value:
                    found[name] = f"differs in {out}"
            elif name.endswith(".db"):
                found["store"] = value
    if (folder / "shared.db").exists():
        found["store"] = state(folder)["shared.db"]
    if url is not None:
        found["store"] = _recorded(url)
    return found


def _recorded(url: str) -> State:
    """Read a store in PostgreSQL, after the server has recovered from the last signal."""
    import sqlalchemy

    ends = time.monotonic() + _LIVES
    while True:
        try:
            return _rows_of(url)
        except sqlalchemy.exc.OperationalError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.5)


def _rows_of(url: str) -> State:
    import sqlalchemy

    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            tables = sqlalchemy.inspect(connection).get_table_names()
            return rows(lambda query: connection.exec_driver_sql(query), tables)
    finally:
        engine.dispose()


class Disturbed:
    """A running campaign."""

    def __init__(
        self, asked: Options, number: int, campaign: Campaign, kills: int, reference: State, outcome: Outcome
    ) -> None:
        self.asked, self.number, self.campaign, self.kills = asked, number, campaign, kills
        self.reference, self.outcome = reference, outcome
        self.rng = random.Random(f"kills {asked.seed} {number}")
        self.folder = asked.work / f"campaign-{number}"
        self.tag = f"{os.getpid()}-{number}"
        self.places: dict[str, str] = {}
        self.environment = environment(asked.work, TORTURE=self.tag)
        self.drivers: dict[int, subprocess.Popen[str]] = {}
        self.done: set[int] = set()
        self.failed: list[str] = []
        self.results: frozenset[str] = frozenset()  # seen so far
        self.refusals = 0
        self.server: Postgres | None = None
        self.cluster: Any = None

    def run(self) -> None:
        self.folder.mkdir()
        self.outcome.add("campaigns")
        self.outcome.add(f"campaigns: {self.campaign.name}")
        with ExitStack() as stack:
            stack.callback(self._end_all)
            if any("{server}" in part for part in self.campaign.commands[0]):
                self.server = stack.enter_context(postgres())
                self.places["server"] = self.server.url
            if "ray" in self.campaign.commands[0]:
                self.cluster = stack.enter_context(ray_cluster(self.environment))
                self.environment |= self.cluster.environment | {
                    "TORTURE": self.tag,
                    "HOME": os.environ.get("HOME", "/"),
                }
                self.places["ray"] = self.cluster.address
            try:
                self._disturb()
                if not self.failed:
                    self._judge()
            except Exception:  # in these checks; the other campaigns and the figures are kept
                self.failed.append(f"the check itself has failed: {traceback.format_exc()}")
        if self.failed:
            about = "\n".join(self.failed)
            kept = keep(self.folder, "kills", self.asked.seed, self.number, about)
            what = f"{self.campaign.name}: {describe(self.campaign.commands[0])}"
            self.outcome.failures.append(Failure("kills", self.number, what, self.failed[0], kept))
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- Signals --------------------------------------------------------------------------------------------------

    def _disturb(self) -> None:
        sent = 0
        early = False
        while not self.failed and self._start():
            if sent >= self.kills:
                self._wait(lambda: False)
                continue
            # During a start. Then progress is required before the next signal, so that the work ends.
            early = not early and self.rng.random() < 0.4
            if early:
                self._sleep(self.rng.uniform(0, 4))
            else:
                before = self._progress()
                self._wait(lambda before=before: self._progress() != before)
                self._sleep(self.rng.uniform(0, 0.2))
            victims = self.campaign.victims
            victim = self.rng.choices(list(victims), list(victims.values()))[0]
            if done := self._hit(victim):
                sent += not done.endswith(_BRIEFLY)
                self.outcome.add(done)
                self._check_results()

    def _start(self) -> bool:
        """Start commands again that have ended; return False if all are done."""
        for place, argv in enumerate(self.campaign.commands):
            driver = self.drivers.get(place)
            if place in self.done or (driver is not None and driver.poll() is None):
                continue
            if driver is not None:
                out, err = driver.communicate()
                if driver.returncode == 0:
                    self.done.add(place)
                    continue
                if driver.returncode != -signal.SIGKILL:
                    self.outcome.add("ends with a sentence")
                    if why := complaint(driver.returncode, err):
                        self.failed.append(f"a driver ended: {why}\n{out}\n{err}")
                        return False
                    self.refusals += 1
                    if self.refusals > _REFUSALS:
                        self.failed.append(f"a driver ends again and again: {last_line(err)}\n{out}\n{err}")
                        return False
                    time.sleep(0.2)  # another process has not ended yet, or a server is not ready
            filled = [part.format(**self.places) if part.startswith("{") else part for part in argv]
            self.drivers[place] = subprocess.Popen(
                [sys.executable, "-c", ENTRY, *filled],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        return len(self.done) < len(self.campaign.commands)

    def _hit(self, victim: str) -> str | None:
        """Send the signal; return the name under which it is counted, or None if there is no such process."""
        if "Ray node" in victim and self.cluster.nodes["other"].poll() is not None:
            self.cluster.start("other")  # it was killed, or ended because the others counted it as dead
            return None
        if "PostgreSQL" in victim and self.server is not None and self.server.has_ended:
            self.server.start()  # a server without a backend may end instead of recovering
            return None
        found = self._found(victim)
        if not found:
            return None
        if "SIGSTOP" in victim:
            return self._suspend(found, victim)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victim == "SIGKILL PostgreSQL":
            assert self.server is not None
            self._sleep(self.rng.uniform(0, 2))
            self.server.start()
        elif victim == "SIGKILL Ray node":
            self.cluster.nodes["other"].wait()
        return victim

    def _found(self, victim: str) -> list[int]:
        """Return the processes that get a signal: one at random, or all of a node or server."""
        running = [driver.pid for driver in self.drivers.values() if driver.poll() is None]
        name = victim.partition(" ")[2]
        if name == "Ray node":
            return list(self.cluster.processes("other"))
        if name == "PostgreSQL" and self.server is not None:
            # The processes of a killed server end by themselves; those of a suspended one would go on.
            return [self.server.pid, *(children(self.server.pid) if "SIGSTOP" in victim else [])]
        if name == "PostgreSQL backend" and self.server is not None:
            found = children(self.server.pid)
        elif name == "Ray worker":
            nodes = [name for name, node in self.cluster.nodes.items() if node.poll() is None]
            found = [pid for name in nodes for pid in self.cluster.workers(name)]
        else:
            found = running if name == "driver" else [pid for driver in running for pid in children(driver)]
        return [self.rng.choice(found)] if found else []

    def _suspend(self, found: list[int], victim: str) -> str:
        """Stop processes for less than a second, or for longer than the lease (Ray: than its health checks)."""
        brief = self.rng.random() < 0.3
        lease = _RAY_PATIENCE if victim == "SIGSTOP Ray node" else LEASE
        seconds = self.rng.uniform(0, 1) if brief else lease + self.rng.uniform(0.5, 2)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            for pid in reversed(found):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        return f"{victim} {_BRIEFLY if brief else 'beyond the lease'}"

    def _check_results(self) -> None:
        """Check that no result has disappeared."""
        now = self._progress()
        if gone := [name for name in self.results if name not in now]:
            self.failed.append(f"a result has disappeared: {', '.join(sorted(gone))}")
        finished = frozenset(name for name in now if name.endswith("result.json"))
        if finished != self.results:
            self.refusals = 0
        self.results = finished

    def _progress(self) -> frozenset[str]:
        names = ("checkpoints/*.json", "runs/*/checkpoints/*.json", "runs/*/result.json")
        names = (*names, *(f"draws/{name}" for name in names[1:]), "result.json")
        return frozenset(str(path) for name in names for path in self.folder.glob(f"work*/{name}"))

    def _sleep(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not self._all_ended():
            time.sleep(0.01)

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds or a driver has ended."""
        ends = time.monotonic() + PATIENCE
        running = [driver for place, driver in self.drivers.items() if place not in self.done]
        while not condition() and all(driver.poll() is None for driver in running):
            if time.monotonic() > ends:
                self.failed.append(f"no progress within {PATIENCE:.0f} s")
                return
            time.sleep(0.01)

    def _all_ended(self) -> bool:
        return all(driver.poll() is not None for driver in self.drivers.values())

    # --- The end --------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        outs = sorted({argv[argv.index("--out") + 1] for argv in self.campaign.commands})
        url = self.places.get("server")
        found = _result(self.folder, outs, url)
        wanted = self.reference
        if what := difference(found, wanted):
            self.failed.append(f"the end is not that of the undisturbed command: {what}")
        if more := [name for name in found if name not in wanted]:
            self.failed.append(f"there is more than without disturbance: {', '.join(more)}")
        ends = time.monotonic() + _LIVES
        while (left := self._left()) and time.monotonic() < ends:
            time.sleep(0.2)
        if left:
            self.failed.append(f"processes are left: {left}")
        self.outcome.add("results compared", sum(name.endswith("result.json") for name in wanted))

    def _left(self) -> list[int]:
        """List the processes of this campaign that still run."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if f"TORTURE={self.tag}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def _end_all(self) -> None:
        for driver in self.drivers.values():
            driver.kill()
            driver.communicate()
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """List the child processes of all threads of a process."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


# --- Servers ----------------------------------------------------------------------------------------------------


def _postgres_programs() -> Path | None:
    on_path = shutil.which("initdb")
    found = [Path(on_path)] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class Postgres:
    """A PostgreSQL server for the campaigns, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        programs = _postgres_programs()
        assert programs is not None
        self._programs, self._folder = programs, folder
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("postgres")
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(folder, user.pw_uid, user.pw_gid)
        self.url = f"postgresql://owner@/postgres?host={folder}"
        self._call("initdb", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions")
        self.start()

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), "-D", str(self._folder / "data"), *arguments]
        with (self._folder / "output").open("w") as output:  # a pipe would stay open in the server
            subprocess.run(command, cwd=self._folder, stdout=output, stderr=output, check=True, **self._as)

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c shared_buffers=16MB"
        for attempt in range(20):
            try:
                self._call("pg_ctl", "start", "-w", "-t", "120", "-l", str(self._folder / "log"), "-o", options)
                return
            except subprocess.CalledProcessError:  # processes of the killed server still hold its shared memory
                if attempt == 19:
                    raise
                time.sleep(0.5)

    @property
    def has_ended(self) -> bool:
        """Return whether the server has ended by itself: then it removes the file with its process id."""
        return not self._pid_file.exists()

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text().split()[0])

    @property
    def _pid_file(self) -> Path:
        return self._folder / "data" / "postmaster.pid"

    def stop(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self._call("pg_ctl", "stop", "-m", "immediate")


@contextmanager
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: a socket's path has at most 107 bytes
    try:
        server = Postgres(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ray_cluster(settings: dict[str, str]) -> Iterator[Any]:
    """Start the cluster of two nodes that the tests use."""
    sys.path.insert(0, str(ROOT / "tests"))
    from ray_cluster import Cluster

    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    cluster = Cluster(folder)
    cluster.environment |= {"RAY_health_check_timeout_ms": "1500", "RAY_health_check_failure_threshold": "3"}
    # Compiled programs must be the same everywhere.
    cluster.environment |= {name: settings[name] for name in settings if name.startswith(("XLA_", "JAX_", "OPENBLAS_"))}
    cluster.environment |= {name: settings[name] for name in ("PYTHONPATH", "LADDERNET_CACHE")}
    try:
        cluster.start("head")
        cluster.wait_for_head()
        cluster.start("other")
        yield cluster
    finally:
        for name in list(cluster.nodes):
            cluster.kill(name)
        shutil.rmtree(folder, ignore_errors=True)


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    counts = outcome.counts
    signals = {name: count for name, count in counts.items() if name.startswith("SIG")}
    yield "signals (without brief suspensions)", f"{_signals(outcome):,}"
    yield "by kind", ", ".join(f"{name} {count:,}" for name, count in sorted(signals.items()))
    names = [name for name in counts if name.startswith("campaigns: ")]
    yield "campaigns", ", ".join(f"{name.removeprefix('campaigns: ')} {counts[name]:,}" for name in names)
    yield "results compared bit by bit", f"{counts['results compared']:,}"
