import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from laddernet.training import programs
from laddernet.training.programs import compiled_programs_kept

KEEPING = """
import os, sys
from collections import Counter
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from laddernet import LadderClassifier

events = Counter()
jax.monitoring.register_event_listener(lambda name, **about: events.update([name.rsplit("/", 1)[-1]]))
x = np.random.default_rng(0).normal(size=(60, 3))
y = np.where(np.arange(60) < 20, x[:, 0] > 0, -1)
classifier = LadderClassifier(hidden=4, n_networks=1, linear_share=0, max_steps=2, n_jobs=1, random_state=0).fit(x, y)
print(events["cache_hits"], events["cache_misses"], classifier.predict_proba(x).sum())
assert jax.config.jax_compilation_cache_dir == os.environ.get("JAX_COMPILATION_CACHE_DIR")
kept = events["cache_misses"]
jax.jit(lambda a: jnp.sin(a) + 1)(x)  # a program of the user's own
assert events["cache_misses"] == kept
# XLA was started with all cores, not with those of n_jobs.
names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
assert names.count("tf_XLAEigen") == len(os.sched_getaffinity(0)), names
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="Threads are counted as Linux shows them.")
def test_a_fit_in_another_process_loads_what_the_first_compiled(tmp_path: Path) -> None:
    environment = os.environ | {"LADDERNET_CACHE": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    del environment["JAX_COMPILATION_CACHE_DIR"]

    def fit_there() -> list[str]:
        done = subprocess.run([sys.executable, "-c", KEEPING], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    hits, misses, total = fit_there()
    assert int(hits) == 0
    assert int(misses) >= 2  # what begins, and the steps
    assert fit_there() == [misses, "0", total]
    assert (tmp_path / "xla").stat().st_mode & 0o777 == 0o700


@pytest.fixture
def no_cache_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """JAX as a user has it who set no cache for programs."""
    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    monkeypatch.setenv("LADDERNET_CACHE", str(tmp_path / "cache"))
    jax.config.update("jax_compilation_cache_dir", None)  # type: ignore[no-untyped-call]
    yield tmp_path / "cache"
    jax.config.update("jax_compilation_cache_dir", before)  # type: ignore[no-untyped-call]
    compilation_cache.reset_cache()


def cache_of_jax() -> Any:
    return jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]


def test_blocks_that_keep_programs_may_overlap(no_cache_set: Path) -> None:
    one, other = compiled_programs_kept(), compiled_programs_kept()
    one.__enter__()
    ours = cache_of_jax()
    assert Path(ours).parent == no_cache_set / "xla"
    other.__enter__()
    one.__exit__(None, None, None)
    assert cache_of_jax() == ours
    other.__exit__(None, None, None)
    assert cache_of_jax() is None


def test_a_cache_that_the_user_chose_stays(no_cache_set: Path, tmp_path: Path) -> None:
    theirs = str(tmp_path / "theirs")
    with compiled_programs_kept():  # chosen while a fit is under way, in another thread
        jax.config.update("jax_compilation_cache_dir", theirs)  # type: ignore[no-untyped-call]
    assert cache_of_jax() == theirs
    with compiled_programs_kept():
        assert cache_of_jax() == theirs
    programs.keep_compiled_programs()
    assert cache_of_jax() == theirs


@pytest.mark.parametrize(("theirs", "inside"), [(1.0, 0.1), (5.0, 5.0), (0.0, 0.0)])
def test_programs_of_a_tenth_of_a_second_are_kept_unless_the_user_chose_otherwise(
    no_cache_set: Path, theirs: float, inside: float
) -> None:
    def least() -> Any:
        return jax.config.jax_persistent_cache_min_compile_time_secs  # type: ignore[attr-defined]

    before = least()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", theirs)  # type: ignore[no-untyped-call]
    try:
        with compiled_programs_kept():
            assert least() == inside
        assert least() == theirs
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before)  # type: ignore[no-untyped-call]


def test_no_programs_are_kept_where_the_user_forbade_it_or_nothing_can_be_written(no_cache_set: Path) -> None:
    jax.config.update("jax_enable_compilation_cache", False)  # type: ignore[no-untyped-call]
    try:
        with compiled_programs_kept():
            assert cache_of_jax() is None
    finally:
        jax.config.update("jax_enable_compilation_cache", True)  # type: ignore[no-untyped-call]
    no_cache_set.write_text("not a folder")
    with compiled_programs_kept():
        assert cache_of_jax() is None
