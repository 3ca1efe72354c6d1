"""An existing cluster that runs use."""

from pathlib import Path

import pytest

from drahealth.fakes.cluster.api import DEVICE_CLASSES, NAMESPACES, PODS
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.suites.errors import HarnessError
from drahealth.suites.targets.kind.reuse import hold, tidy
from drahealth.suites.targets.target import BELONGS


def test_one_run_at_a_time_uses_a_cluster(tmp_path: Path) -> None:
    held = hold("mine", "AB:CD", tmp_path)
    with pytest.raises(HarnessError, match=r"another run uses the cluster mine"):
        hold("mine", "AB:CD", tmp_path)
    hold("mine", "EF:GH", tmp_path).release()
    held.release()
    hold("mine", "AB:CD", tmp_path).release()


def test_an_unwritable_lock_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match=r"cluster mine in .*/file: .* set XDG_STATE_HOME"):
        hold("mine", "AB:CD", tmp_path / "file")


async def test_only_the_objects_of_a_killed_run_are_deleted() -> None:
    api = ApiServer()
    for name, labels in (("ours", BELONGS), ("theirs", {})):
        await api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        await api.create(DEVICE_CLASSES, {"metadata": {"name": name, "labels": labels}, "spec": {}})
        pod = {
            "metadata": {"name": "pod", "namespace": name},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }
        await api.create(PODS, pod)
    await tidy(api)
    left = {
        kind.kind: [o["metadata"].get("namespace", o["metadata"]["name"]) for o in await api.list(kind)]
        for kind in (NAMESPACES, DEVICE_CLASSES, PODS)
    }
    assert left == {"Namespace": ["default", "kube-system", "theirs"], "DeviceClass": ["theirs"], "Pod": ["theirs"]}
