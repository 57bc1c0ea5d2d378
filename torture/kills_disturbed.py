"""A campaign while it runs: signals at random moments, processes that are started again, and the check at the end."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from torture.common import Failure, Options, Outcome, complaint, describe, environment, keep, last_line
from torture.kills_campaigns import ENTRY, LEASE, Campaign
from torture.kills_results import LIVES, result
from torture.kills_servers import RAY_PATIENCE, Postgres, postgres, ray_cluster
from torture.state import State, difference

PATIENCE = 900.0  # seconds without progress that count as a hang, also on a busy machine
_REFUSALS = 30  # consecutive ends with a sentence, without progress, that count as a hang
BRIEFLY = "briefly"


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
                sent += not done.endswith(BRIEFLY)
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
        lease = RAY_PATIENCE if victim == "SIGSTOP Ray node" else LEASE
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
        return f"{victim} {BRIEFLY if brief else 'beyond the lease'}"

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
        found = result(self.folder, outs, url)
        wanted = self.reference
        if what := difference(found, wanted):
            self.failed.append(f"the end is not that of the undisturbed command: {what}")
        if more := [name for name in found if name not in wanted]:
            self.failed.append(f"there is more than without disturbance: {', '.join(more)}")
        ends = time.monotonic() + LIVES
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
