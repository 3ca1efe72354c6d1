"""The subject of a driver that runs already: its node, and its directories of CDI specs."""

from dataclasses import replace
from pathlib import Path
from socket import gethostname
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drahealth.fakes.clock import JumpClock
from drahealth.fakes.cluster.api import NODES
from drahealth.proto.events import Event
from drahealth.suites.driver_checks.experiments import Process
from drahealth.suites.driver_checks.profile.model import CDI_DIRS
from drahealth.suites.driver_checks.subject.laboratory import laboratory
from drahealth.suites.driver_checks.subject.places import NAMES, Places, check_placeholders, filled
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.targets.api_servers import api_server
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


# Placeholders in a driver's command line.

PLACES = Places(Path("/l"), Path("/r"), Path("/p"), Path("/c"), Path("/k"), "node-a", "gpu.example.com")


def test_every_placeholder_has_a_value() -> None:
    assert tuple(PLACES.placeholders()) == NAMES


def test_placeholders_are_replaced_anywhere_in_a_word() -> None:
    assert filled("--dir={driver_dir}/{node_name}", PLACES.placeholders()) == "--dir=/p/gpu.example.com/node-a"


def test_unknown_placeholder_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="registry_dirs"):
        check_placeholders(["--dir={registry_dirs}"])


@given(st.text().filter(lambda text: "{" not in text or "}" not in text))
def test_text_without_placeholders_is_unchanged(text: str) -> None:
    check_placeholders([text])
    assert filled(text, PLACES.placeholders()) == text


def test_next_instance_differs_in_its_pod_alone() -> None:
    first, second = PLACES.placeholders(), replace(PLACES, instance=2).placeholders()
    assert {name for name in NAMES if first[name] != second[name]} == {"pod_uid", "instance"}
    assert UUID(first["pod_uid"]) == UUID(PLACES.pod_uid)
