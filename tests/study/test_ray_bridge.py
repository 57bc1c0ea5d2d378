"""The bridge to a Ray cluster, without a cluster."""

from pathlib import Path

import pytest

from laddernet.study import ray_bridge


def test_the_bridge_ends_the_worker_of_a_stopped_task_or_forgets_one_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[str] = []
    monkeypatch.setattr(ray_bridge.ray, "kill", killed.append)
    pool = ray_bridge.Pool(ray_bridge.Options("", 1, 0, None, str(tmp_path), "", str(tmp_path)), lambda line: None)
    pool._workers = [
        ray_bridge.Worker("node", "training", None, slot=0, events=object()),
        ray_bridge.Worker("node", "done with slot 1", None, slot=1),
        ray_bridge.Worker("node", "other", None, slot=2, events=object()),
    ]
    pool.waiting = {1: {}, 3: {}}
    pool.stop(0)
    pool.stop(1)
    assert killed == ["training"]
    assert list(pool.waiting) == [3]


def test_what_is_under_way_on_a_node_that_turns_out_unfit_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [{"NodeID": n, "NodeManagerAddress": n, "Alive": True, "Resources": {"CPU": 2.0}} for n in ("bad", "good")]
    killed: list[str] = []
    told: list[dict[str, object]] = []
    monkeypatch.setattr(ray_bridge.ray, "nodes", lambda: nodes)
    monkeypatch.setattr(ray_bridge.ray, "kill", killed.append)
    pool = ray_bridge.Pool(ray_bridge.Options("", 1, 0, None, str(tmp_path), "", str(tmp_path)), told.append)
    training = ray_bridge.Worker("bad", "training", check=None, slot=0, events=object())
    pool._workers = [training, ray_bridge.Worker("bad", "idle", None), ray_bridge.Worker("good", "other", None)]
    pool._exclude("bad", "cannot reach the storage")
    assert killed == ["idle"]
    assert pool._workers[0] is training
    assert told == [
        {"slots": 2},
        {"notice": "Node bad cannot reach the storage. The study goes on without it."},
    ]
