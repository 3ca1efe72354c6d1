"""The controller on the nodes `left` and `right` of `drahealth up`, with the official Python client and no fixture."""

import json
import os
import subprocess
import sys
import time

import pytest
from kubernetes import client, config

GPU = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
CLAIM = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [GPU]}}}
POD = {
    "metadata": {"name": "job"},
    "spec": {
        "containers": [{"name": "main", "image": "training", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
    },
}


class Node:
    """A node of `drahealth up`, with a Pod that uses a GPU, and with the controller as a process."""

    def __init__(self, name):
        printed = subprocess.run(["drahealth", "status", "--json"], stdout=subprocess.PIPE, check=True).stdout
        kubeconfig = {node["name"]: node["kubeconfig"] for node in json.loads(printed)}[name]
        api = config.new_client_from_config(kubeconfig)
        self.name, self.core, self.resources = name, client.CoreV1Api(api), client.ResourceV1Api(api)
        environment = {**os.environ, "KUBECONFIG": kubeconfig}
        self.controller = subprocess.Popen([sys.executable, "controller.py"], env=environment)

    def ctl(self, *command):
        subprocess.run(["drahealth", "ctl", "--name", self.name, *command], check=True)

    def phases(self):
        return [pod.status.phase for pod in self.core.list_namespaced_pod("default").items]

    def start_pod(self):
        self.resources.create_namespaced_resource_claim("default", CLAIM)
        self.core.create_namespaced_pod("default", POD)
        wait_until(lambda: self.phases() == ["Running"])

    def break_gpu_of_pod(self):
        claim = self.resources.read_namespaced_resource_claim("gpu", "default")
        self.ctl("inject", "xid/48", claim.status.allocation.devices.results[0].device)

    def stop(self):
        self.controller.terminate()
        self.controller.wait()
        self.core.delete_collection_namespaced_pod("default")
        self.resources.delete_collection_namespaced_resource_claim("default")
        wait_until(lambda: not self.resources.list_namespaced_resource_claim("default").items)
        self.ctl("reset")


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "not true within 60 s"
        time.sleep(0.1)


@pytest.fixture
def start_node():
    """A function that returns a node of this name. At the end of the test, its Pod, claim and faults are removed."""
    nodes = []

    def start(name):
        nodes.append(Node(name))
        nodes[-1].start_pod()
        return nodes[-1]

    yield start
    for node in nodes:
        node.stop()


def test_other_node_keeps_its_pod(start_node):
    left, right = start_node("left"), start_node("right")
    left.break_gpu_of_pod()
    wait_until(lambda: left.phases() == [])
    assert right.phases() == ["Running"]
