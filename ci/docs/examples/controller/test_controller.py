"""The controller on one node: the reference, or with --drahealth-node the node of `drahealth up`."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def controller(drahealth_node):
    environment = {**os.environ, "KUBECONFIG": str(drahealth_node.kubeconfig())}
    with subprocess.Popen([sys.executable, "controller.py"], env=environment) as process:
        yield
        process.terminate()


def test_pod_with_failed_gpu_is_deleted(drahealth_node, drahealth_driver, controller):
    pod = drahealth_node.run_pod_with_device()
    drahealth_driver.inject("xid/48", pod.device)
    pod.wait_deleted()
