"""Recipes of docs/nodes.md for programs of others, on a node of `drahealth up`."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cel
import pytest
import yaml

from drahealth.suites.unit.up_command.node_commands import RELEASE, WAIT, drahealth, folder_of_nodes, kubectl_of

ROOT = Path(__file__).resolve().parents[3]
READ_PAGE = runpy.run_path(str(ROOT / "ci" / "docs" / "pages.py"), run_name="pages")["read_page"]


def shown(name: str) -> str:
    """The text of a file that the page shows."""
    blocks = READ_PAGE((ROOT / "docs" / "nodes.md").read_text())
    return str(next(block.text for block in blocks if getattr(block, "name", "") == name))


@pytest.fixture
def node() -> Iterator[str]:
    """The name of a node with the Pod `job`. The node is removed at the end."""
    with folder_of_nodes("recipes") as folder:
        drahealth("up", *RELEASE, "--name", "recipes")
        drahealth("load", "--name", "recipes", "-", text=shown("job.yaml"))
        kubectl_of("recipes", "wait", "--for=condition=Ready", "pod/job", WAIT)
        yield "recipes"
        drahealth("down", "--all")
        folder.rmdir()


def judged(node: str) -> tuple[Any, Any]:
    """Whether the policy finds the Pod, and its node."""
    [policy] = yaml.safe_load(shown("policies.yaml"))["kubernetes-object-monitor"]["policies"]
    resource = {"resource": json.loads(kubectl_of(node, "get", "pod/job", "-o=json"))}
    expressions = [policy[part]["expression"] for part in ("predicate", "nodeAssociation")]
    unhealthy, where = (cel.evaluate(expression, resource) for expression in expressions)
    return unhealthy, where


def test_the_policy_finds_a_pod_while_its_device_is_unhealthy(node: str) -> None:
    found = [judged(node)]
    for command, health in ((("inject", "xid/48"), "Unhealthy"), (("recover", "replace"), "Healthy")):
        drahealth("ctl", "--name", node, *command, "gpu-*")
        kubectl_of(node, "wait", "pod/job", f"--for=jsonpath={{..health}}={health}", WAIT)
        found.append(judged(node))
    assert found == [(False, node), (True, node), (False, node)]
