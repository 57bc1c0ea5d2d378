"""Studies on a real Ray cluster of two nodes, whose processes are killed; the table must come out the same."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ray_cluster import Cluster, cluster  # noqa: F401  (a fixture)
from support import PATIENCE, Finished, contents, laddernet, wait_for

from laddernet.study.store import Store
from laddernet.tune.outcome import outcomes
from laddernet.tune.search import open_storage

pytestmark = pytest.mark.process

SETTINGS = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "24", "--checkpoint-every", "0")

STUDY = ("study", "--models", "vanilla", "--seeds", "3", *SETTINGS, "--out", "s")


@pytest.fixture
def on_ray(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:  # noqa: F811
    """The options for a study on the cluster, whose token this process now has."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return ("--executor", "ray", "--address", cluster.address)


def results(folder: Path) -> dict[str, bytes]:
    """What must be the same wherever it was computed."""
    kept = ("table.csv", "table.md", "table.tex", "weights.safetensors", "metrics.csv", "config.json")
    return {name: content for name, content in contents(folder).items() if name.endswith(kept)}


def is_refused(ended: Finished, sentence: str, folder: Path) -> None:
    assert ended.code == 2
    assert sentence in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert not (folder / "s" / "study.db").exists()


def test_without_the_token_one_hears_what_to_do(
    cluster: Cluster,  # noqa: F811
    on_ray: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentence = f"The Ray cluster at {cluster.address} refused the token of this machine; set RAY_AUTH_MODE=token, and"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "absent"))
    is_refused(laddernet(*STUDY, *on_ray, cwd=tmp_path), sentence, tmp_path)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "wrong")
    is_refused(laddernet(*STUDY, *on_ray, cwd=tmp_path), sentence, tmp_path)


def test_a_cluster_out_of_reach_is_one_sentence(tmp_path: Path) -> None:
    ended = laddernet(*STUDY, "--executor", "ray", "--address", "127.0.0.9:1", cwd=tmp_path)
    is_refused(ended, "Cannot reach the Ray cluster at 127.0.0.9:1 (", tmp_path)


@pytest.fixture(scope="module")
def one_core() -> Iterator[None]:
    """This machine as if it had one core, which is what each run has on the cluster."""
    with pytest.MonkeyPatch.context() as patch:
        core = min(os.sched_getaffinity(0))
        patch.setattr(os, "sched_getaffinity", lambda process: {core})
        yield


@pytest.fixture(scope="module")
def undisturbed(one_core: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study as it goes on this machine."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert laddernet(*STUDY, cwd=folder).code == 0
    return folder / "s"


def test_kills_of_node_driver_and_worker_change_nothing(
    cluster: Cluster,  # noqa: F811
    on_ray: tuple[str, ...],
    undisturbed: Path,
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "laddernet", *STUDY, *on_ray, "--storage", (tmp_path / "storage").as_uri()]

    def wait(condition: Callable[[], object]) -> None:
        wait_for(condition, driver.poll)

    def checkpoints() -> set[Path]:
        return set((tmp_path / "storage").glob("runs/*/checkpoints/*.json"))

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    cluster.hold.touch()  # no run ends before the last kill
    driver = start()
    wait(lambda: cluster.workers("head") and cluster.workers("other") and checkpoints())
    cluster.kill("other")
    workers = cluster.workers("head")
    driver.kill()
    driver.communicate()
    driver = start()
    wait(lambda: not set(workers) & set(cluster.workers("head")))  # they end with their driver
    before = checkpoints()
    wait(lambda: cluster.workers("head") and checkpoints() - before)
    os.kill(cluster.workers("head")[0], signal.SIGKILL)
    cluster.hold.unlink()
    out, err = driver.communicate(timeout=PATIENCE)
    assert (driver.returncode, err) == (0, "")
    assert "ray" not in out.lower()  # which has much to say when something is killed
    assert results(tmp_path / "s") == results(undisturbed)
    store = Store.open(tmp_path / "s" / "study.db")
    assert store.counts() == {"waiting": 0, "running": 0, "done": 3, "failed": 0}
    assert sum(run.attempts for run in store.runs()) > 3
    assert not list(tmp_path.rglob("checkpoints"))
    wait_for(lambda: not cluster.workers("head"))


def test_a_search_on_the_cluster_finds_what_one_on_this_machine_finds(
    on_ray: tuple[str, ...], one_core: None, tmp_path: Path
) -> None:
    search = ("tune", "vanilla", *SETTINGS, "--trials", "2", "--draws", "2")
    assert laddernet(*search, "--out", "here", cwd=tmp_path).code == 0
    done = laddernet(*search, *on_ray, "--out", "there", "--storage", (tmp_path / "storage").as_uri(), cwd=tmp_path)
    assert (done.code, done.err) == (0, "")

    def tried(name: str) -> list[list[float]]:
        with closing(Store.open(tmp_path / name / "tune.db", create=False)) as store:
            (outcome,) = outcomes(open_storage(store))
        return [trial.errors for trial in outcome.trials]

    assert tried("there") == tried("here")
    assert [len(errors) for errors in tried("there")] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--executor", "slurm"), "There is no executor 'slurm'; give local or ray."),
        (("--gpus-per-run", "0.5"), "--gpus-per-run is for Ray; give --executor ray with it."),
        (("--storage", "/shared"), "--storage is for Ray; give --executor ray with it."),
        (
            ("--executor", "ray", "--gpus-per-run", "1.5"),
            "--gpus-per-run must be 0, a share below 1, or a whole number",
        ),
        (("--executor", "ray", "--address", "ray://host:10001"), "write it as host:port, on a machine that is a node"),
        (("--executor", "ray", "--cpus-per-run", "0"), "--cpus-per-run must be 1 or more, got 0."),
        (("--executor", "ray", "--storage", "nosuch://x"), "Cannot use the storage nosuch://x (Protocol not known"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    is_refused(laddernet(*STUDY, *arguments, cwd=tmp_path), sentence, tmp_path)


def test_without_ray_one_hears_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.ray_executor.find_spec", lambda name: None)
    sentence = "--executor ray needs ray, which is not installed; install it with pip install 'laddernet[ray]'."
    is_refused(laddernet(*STUDY, "--executor", "ray", cwd=tmp_path), sentence, tmp_path)
