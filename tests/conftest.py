"""What all tests share: programs compiled quickly, and only once, however many processes need them."""

import atexit
import gc
import mmap
import os
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from postgres import fresh_schema, server  # noqa: F401  (fixtures)
from threadpoolctl import threadpool_limits
from tools import TOOLS, need

if TYPE_CHECKING:
    from support import Finished


def _flags_of_xla(wanted: dict[str, str]) -> Iterator[str]:
    """Yield the flags that the installed XLA has: it ends a process that gives it an unknown one."""
    spec = find_spec("jaxlib")
    for library in Path(spec.origin).parent.glob("libjax_common.*") if spec and spec.origin else ():
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield from (f"--{name}={value}" for name, value in wanted.items() if content.find(name.encode()) >= 0)


# Before JAX is imported, and through the environment, so that processes started by tests have them too. Compilation
# takes most of the suite's time. Less optimisation and XLA's older code generation halve it, and change no test's
# meaning.
_FAST = {
    "xla_backend_optimization_level": "0",
    "xla_cpu_parallel_codegen_split_count": "1",
    "xla_cpu_use_fusion_emitters": "false",
}
os.environ["XLA_FLAGS"] = " ".join(_flags_of_xla(_FAST))
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parent.parent / ".pytest_cache" / "xla")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
# The suite's two processes keep both cores busy. Several threads of BLAS or OpenMP in each would wait for each other in
# loops: cross-validation of a logistic regression took forty times the processor time. Libraries that are loaded
# already, since jaxtyping's plugin of pytest imports NumPy, do not read the environment.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
threadpool_limits(1)
gc.set_threshold(50_000, 20, 20)  # tracing makes millions of small objects: collecting them took 6 % of its time


TREES = 10

# The same examples in every run, and none fails because it took long: not by a deadline, nor by the health check that
# measures how long it takes to generate them.
hypothesis.settings.register_profile(
    "laddernet",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("laddernet")


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """A busy disk takes seconds for each fsync, and only a power cut would show whether it was called."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def compiler() -> None:
    """For tests of native code: it is there, since a compiler is."""
    need("compiler")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """Print in the last lines, after pytest's own, which tests were skipped for want of a tool."""
    result = yield
    if hasattr(session.config, "workerinput"):  # a process of pytest-xdist
        # At its end JAX would clear its caches for a minute. Handlers run in reverse order: this runs before JAX's.
        atexit.register(os._exit, 0)
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # the processes of pytest-xdist have none
        reasons = [report.longrepr[2] for report in terminal.stats.get("skipped", [])]
        for tool in TOOLS.values():
            if count := reasons.count(f"Skipped: {tool.reason}"):
                tests, them = ("1 test that needs", "it") if count == 1 else (f"{count} tests that need", "them")
                terminal.write_line(f"Skipped {tests} {tool.name}; to run {them}: {tool.how}")
    return result


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "Finished"]:
    """The folder of a run that `laddernet train` took to its end, and what that printed; not to be changed."""
    from support import OPTIONS, laddernet

    folder = tmp_path_factory.mktemp("finished")
    done = laddernet("train", *OPTIONS, "--out", "run", "--json", "--checkpoint-every", "0", cwd=folder)
    return folder / "run", done


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forests of ten trees, where a fit of all methods is not judged by their errors: ten folds fit twenty forests."""
    monkeypatch.setattr("laddernet.classifier.methods._TREES", TREES)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "Finished"]:
    """A folder with clinic.csv and the model that `fit` made of it, and what that printed; not to be changed.

    Its forests are those of ``few_trees``.
    """
    from clinic import OPTIONS, clinic
    from support import laddernet

    folder = tmp_path_factory.mktemp("clinic")
    clinic().to_csv(folder / "clinic.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("laddernet.classifier.methods._TREES", TREES)
        done = laddernet("fit", "clinic.csv", "--target", "result", *OPTIONS, "--estimate", cwd=folder)
    assert (done.code, done.err) == (0, "")
    return folder, done


@pytest.fixture(scope="session")
def iris_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of a table, of which a test may make a changed copy."""
    import numpy as np
    import pandas as pd
    from sklearn.datasets import load_iris

    from laddernet.table.model import TableModel

    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(label=np.array(["x", "y", "z"])[y], e=list("uvw") * 50)
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    TableModel.fit(frame, "label", method="ladder", hidden=(4,), max_steps=2, n_networks=1, linear_share=0.0).save(path)
    return path


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test train."""
    from support import UNTRAINED

    from laddernet import LadderClassifier

    def fit(*_: Any) -> None:
        raise AssertionError(UNTRAINED)

    monkeypatch.setattr(LadderClassifier, "fit", fit)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read tables in parts of some rows."""
    monkeypatch.setattr("laddernet.table.table.CELLS", 100)


@pytest.fixture
def computed(tmp_path: Path) -> Path:
    """The folder of a study of four runs that are finished and in the table."""
    from studies import computed_study

    return computed_study(tmp_path)
