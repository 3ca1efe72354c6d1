"""The subject of a driver that runs already: its node, and its directories of CDI specs."""

from pathlib import Path
from socket import gethostname

import pytest

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NODES
from drahealth.proto.events import Event
from drahealth.suites.driver_checks.experiments import Process
from drahealth.suites.driver_checks.profile.model import CDI_DIRS
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.driver_checks.subject.places import Places
from drahealth.suites.targets.api_servers.serving import api_server
from drahealth.suites.unit.driver_checks.runs import run_with

HOST = gethostname().lower()


class NoRecords:
    """Drops events."""

    def of_current(self, event: Event) -> None: ...

    def of_process(self, process: Process, event: Event) -> None: ...

    def hide(self, secret: str) -> None: ...


async def running_driver(root: Path, node: str, node_name: str) -> Places:
    """The places of a driver that runs, with an API server that has this Node."""
    async with api_server("memory", root / "api") as server:
        await server.api.create(NODES, {"metadata": {"name": node}})
        running = {"registry-dir": root, "kubeconfig": await server.kubeconfig(), "node-name": node_name}
        async with laboratory(
            run_with({"driver": {"running": running}}), ["main"], root, JumpClock(), NoRecords()
        ) as found:
            return found["main"].places


@pytest.mark.parametrize(
    ("node", "node_name", "expected"), [(HOST, "", HOST), ("other", "", ""), (HOST, "other", "other")]
)
async def test_node_name_defaults_to_the_host_if_its_node_exists(
    tmp_path: Path, node: str, node_name: str, expected: str
) -> None:
    (tmp_path / "api").mkdir()
    places = await running_driver(tmp_path, node, node_name)
    assert (places.node_name, places.cdi_dirs) == (expected, CDI_DIRS)
