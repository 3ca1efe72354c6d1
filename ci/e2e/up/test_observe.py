"""`drahealth observe` on a node with one driver for each misbehavior, and one without: each is found, and no other."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drahealth.suites.unit.up_command.node_commands import drahealth, folder_of_nodes

NODE = "observed"
WATCHED = 60
"""Seconds: longer than the default timeout of a report, after which the reference shows Unknown at once."""
MISBEHAVIORS: dict[str, tuple[set[str], tuple[tuple[str, ...], ...]]] = {
    "stopped": ({"OBSERVE-03", "OBSERVE-04", "OBSERVE-07"}, (("stop",),)),
    "healthy": (set(), ()),
    "silent": ({"OBSERVE-03"}, (("stream", "silence"),)),
    "without-heartbeat": ({"OBSERVE-03"}, (("set", "--heartbeat", "0"),)),
    "unknown": ({"OBSERVE-03"}, (("set", "--health", "Unknown", "all"),)),
    "flapping": ({"OBSERVE-05"}, (("flap", "gpu-0", "--every", "1s"),)),
    "restless": ({"OBSERVE-06"}, tuple(("taint", "gpu-1", f"a/b{number}:None") for number in range(8))),
    "untainted": ({"OBSERVE-08"}, (("inject", "xid/48", "gpu-0"),)),
    "tainted": ({"OBSERVE-08"}, (("taint", "gpu-0", "a/b:NoSchedule"),)),
    "absent": ({"OBSERVE-07", "OBSERVE-09"}, ()),
}
"""The rules that a driver fails, and the commands that make its fake misbehave. The last one has only these objects."""
OBJECTS = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: absent}
spec:
  driver: absent.example.com
  nodeName: observed
  pool: {name: observed, generation: 1, resourceSliceCount: 2}
  devices: [{name: gpu-0}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: absent.example.com}
spec: {selectors: [{cel: {expression: device.driver == "absent.example.com"}}]}
"""
FAKES = [name for name in MISBEHAVIORS if name != "absent"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The reports of all observations, which run side by side, by the name of the driver."""
    files = tmp_path_factory.mktemp("observe")
    inventory = files / "drivers.yaml"
    drivers = [{"name": f"{name}.example.com", "devices": [{"name": "gpu", "count": 2}]} for name in FAKES]
    inventory.write_text(json.dumps({"format": "inventory/v1", "drivers": drivers}))
    with folder_of_nodes(NODE) as folder:
        drahealth("up", "--reference", "--name", NODE, "-f", str(inventory))
        drahealth("load", "--name", NODE, "-", text=OBJECTS)
        kubeconfig = str(folder / NODE / "kubeconfig")
        running = {name: started(name, kubeconfig, files / f"{name}.json") for name in MISBEHAVIORS}
        for name in FAKES:
            until_it_watches(running[name])
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(misbehave, FAKES))
        for one in running.values():
            one.communicate()
        interrupted = started("healthy", kubeconfig, files / "interrupted.json")
        until_it_watches(interrupted)
        interrupted.send_signal(signal.SIGINT)
        interrupted.communicate()
        left = drahealth("kubectl", "--name", NODE, "get", "pods,resourceclaims", "-o=name")
        names = (*MISBEHAVIORS, "interrupted")
        yield {name: json.loads((files / f"{name}.json").read_text()) for name in names} | {"left": left}
        drahealth("down", "--name", NODE)
        folder.rmdir()


def started(name: str, kubeconfig: str, report: Path) -> subprocess.Popen[str]:
    options = ["--kubeconfig", kubeconfig, "--for", f"{WATCHED}s", "--report", str(report)]
    command = [sys.executable, "-m", "drahealth.suites", "observe", "--driver", f"{name}.example.com", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def until_it_watches(observer: subprocess.Popen[str]) -> None:
    assert observer.stderr
    while not observer.stderr.readline().startswith("watching"):
        assert observer.poll() is None


def misbehave(name: str) -> None:
    for command in MISBEHAVIORS[name][1]:
        drahealth("ctl", "--name", NODE, "--driver", f"{name}.example.com", *command)


@pytest.mark.parametrize("name", MISBEHAVIORS)
def test_each_misbehavior_fails_the_rules_for_it_alone(name: str, reports: dict[str, Any]) -> None:
    (node,) = reports[name]["nodes"]
    assert {rule for rule, found in node["findings"].items() if found["verdict"] == "FAIL"} == MISBEHAVIORS[name][0]


def test_an_interrupted_observation_says_so(reports: dict[str, Any]) -> None:
    found = reports["interrupted"]
    assert (found["verdict"], found["exit_code"], found["complete"]) == ("interrupted", 3, False)


def test_pods_and_claims_of_the_observers_are_gone(reports: dict[str, Any]) -> None:
    assert reports["left"].strip() in ("", "No resources found in default namespace.")
