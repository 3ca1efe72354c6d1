"""What the processes of one run tell each other about their cluster."""

from dataclasses import asdict
from pathlib import Path

import pytest

from drahealth.suites.targets.kind.cluster.site import SharedSite, Site, seconds
from drahealth.suites.targets.shared_file import SharedFile

SITE = Site(
    engine="docker",
    folder="/f",
    kubeconfig="/f/kubeconfig",
    control_plane="c-control-plane",
    nodes=("c-control-plane", "c-worker", "c-worker2"),
    pods={"c-worker2": "pod-b", "c-worker": "pod-a"},
    image="i:1",
    sync_frequency=6.0,
)


async def test_workers_read_the_site_that_the_controller_wrote(tmp_path: Path) -> None:
    file = SharedFile(tmp_path / "shared.json")
    file.write(asdict(SITE))
    assert await SharedSite(file).up() == SITE


def test_workers_are_spread_over_the_nodes_that_take_pods() -> None:
    assert [SITE.node_for(worker) for worker in range(3)] == ["c-worker", "c-worker2", "c-worker"]


@pytest.mark.parametrize(
    ("text", "number"), [("6s", 6), ("1m0s", 60), ("1h1m1.5s", 3661.5), ("250ms", 0.25), ("0s", 0)]
)
def test_a_duration_of_gos_is_so_many_seconds(text: str, number: float) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "6", "s", "6 s", "-1s", "1y"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} is no duration$"):
        seconds(text)
