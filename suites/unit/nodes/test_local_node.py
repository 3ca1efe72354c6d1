"""A node for other people's tests, on a real kubelet. `ci/step examples` runs one."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from drahealth.manager.releases import NEWEST
from drahealth.suites import ConfigurationError, HarnessError, LocalNode, Node
from drahealth.suites.targets.kubelet.binaries import Binaries
from drahealth.suites.targets.kubelet.target import KubeletTarget
from drahealth.suites.targets.registry import Launch
from drahealth.suites.unit.nodes.leftovers import leftovers


@dataclass(frozen=True)
class WithoutBinaries:
    """A real kubelet whose programs are not there."""

    def make(self, launch: Launch) -> KubeletTarget:
        return KubeletTarget(Binaries("1.37.1", *[Path("/none")] * 5), NEWEST)


@pytest.mark.usefixtures("private_namespaces")
async def test_node_that_cannot_start_leaves_nothing_behind(base: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(HarnessError, match="/none"):
        async with Node(WithoutBinaries()):
            pass
    assert (asyncio.all_tasks() - before, leftovers(base)) == (set(), [])


@pytest.mark.parametrize("version", ["1.33", "1.33.0", "latest"])
def test_unknown_release_is_rejected(version: str) -> None:
    with pytest.raises(ConfigurationError, match=version.removesuffix(".0")):
        LocalNode(version)
