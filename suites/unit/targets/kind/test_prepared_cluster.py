"""The cluster data that the controller of a run shares with its workers."""

from dataclasses import asdict
from pathlib import Path

import pytest

from drahealth.suites.targets.definition import SharedFile
from drahealth.suites.targets.kind.cluster import JoinedCluster, PreparedCluster, seconds

PREPARED = PreparedCluster(
    engine="docker",
    folder="/f",
    kubeconfig="/f/kubeconfig",
    control_plane="c-control-plane",
    nodes=("c-control-plane", "c-worker", "c-worker2"),
    pods={"c-worker2": "pod-b", "c-worker": "pod-a"},
    image="i:1",
    sync_frequency=6.0,
)


async def test_workers_read_the_cluster_that_the_controller_wrote(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "shared.json")
    file.write(asdict(PREPARED))
    assert await JoinedCluster(file).up() == PREPARED


def test_workers_are_spread_over_the_nodes_that_accept_pods() -> None:
    assert [PREPARED.node_for(worker) for worker in range(3)] == ["c-worker", "c-worker2", "c-worker"]


@pytest.mark.parametrize(
    ("text", "number"), [("6s", 6), ("1m0s", 60), ("1h1m1.5s", 3661.5), ("250ms", 0.25), ("0s", 0)]
)
def test_a_go_duration_is_read_as_seconds(text: str, number: float) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "6", "s", "6 s", "-1s", "1y"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} is no duration$"):
        seconds(text)
