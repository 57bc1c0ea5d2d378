"""Which nodes of a Ray cluster can train a run."""

from pathlib import Path

from laddernet.study.ray_worker import RayWorker, version
from laddernet.study.storage import Storage


def worker(where: str) -> RayWorker:
    """Without what its beginning does to the process: it would be kept to one core."""
    made = RayWorker.__new__(RayWorker)
    made._where = where
    return made


def test_a_node_that_does_not_see_the_storage_is_unfit(tmp_path: Path) -> None:
    identity = Storage(tmp_path).identity()
    assert worker(str(tmp_path)).unfit(version(), identity) is None
    for reason in (
        worker(str(tmp_path)).unfit(version(), "another"),
        worker(str(tmp_path / "absent")).unfit(version(), identity),
    ):
        assert reason is not None
        assert reason.startswith(f"does not see the storage {tmp_path}")
    assert "Protocol not known" in str(worker("nosuch://x").unfit(version(), identity))


def test_a_node_with_another_laddernet_is_unfit(tmp_path: Path) -> None:
    reason = worker(str(tmp_path)).unfit(["9.9", 1], "")
    assert reason is not None
    assert reason.endswith("but the study is of 9.9 (revision 1); install the same on all nodes")
