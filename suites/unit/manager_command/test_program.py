"""The program in this process: manifests, statuses, restarts and invalid files."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from drahealth.fakes.cluster.api import CLAIMS, NAMESPACES, NODES, PODS, Kind, Object, WatchEvent
from drahealth.fakes.cluster.api_server.lists import Matches, everything
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.proto.events import PodDeleted, Prepared, Unprepared
from drahealth.proto.values import Health
from drahealth.suites.errors import HarnessError
from drahealth.suites.manager_command.program import Options
from drahealth.suites.targets.api_servers import MemoryApiServer
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.manager_command.rig import (
    CLAIM,
    DIRECT,
    DRIVER,
    PATIENCE,
    SCHEDULED,
    TEMPLATE,
    Rig,
    pod,
    status_in,
)

GPU = f"{DRIVER}/node-a/gpu-0"
HEALTHY, UNHEALTHY, UNKNOWN = (GPU, "Healthy", ""), (GPU, "Unhealthy", "xid 79"), (GPU, "Unknown", "")


async def unhealthy_pod(rig: Rig, claim: str = TEMPLATE) -> FakeDriver:
    """A pod that shows its device unhealthy."""
    rig.write("classes.yaml", SCHEDULED)
    rig.write("job.yaml", pod(claim=claim), *([CLAIM] if claim == DIRECT else []))
    await rig.start()
    driver = await rig.driver()
    await rig.shows(HEALTHY)
    await driver.set_health("gpu-0", Health.UNHEALTHY, "xid 79")
    await rig.shows(UNHEALTHY)
    return driver


@pytest.mark.parametrize("claim", [TEMPLATE, DIRECT], ids=["allocated by the scheduler", "by its manifest"])
async def test_a_pod_shows_the_health_of_its_device(rig: Rig, claim: str) -> None:
    await unhealthy_pod(rig, claim)
    status = rig.status()
    assert (status["phase"], [c["name"] for c in status["containerStatuses"]]) == ("Running", ["main"])


class LateServer(ApiServer):
    """Its watches deliver nothing once it is late."""

    is_late = False

    async def watch(
        self, kind: Kind, namespace: str | None = None, since: str | None = None, matches: Matches = everything
    ) -> AsyncGenerator[WatchEvent, None]:
        async for event in super().watch(kind, namespace, since, matches):
            if self.is_late:
                await asyncio.Event().wait()
            yield event


async def test_stop_writes_last_statuses_despite_a_late_watch(rig: Rig) -> None:
    def late_server(options: Options) -> MemoryApiServer:
        process = MemoryApiServer(options.root)
        process.api = api
        return process

    api = LateServer()
    rig.make_server = late_server
    rig.write("job.yaml", pod())
    await rig.start()
    await rig.runs()
    api.is_late = True
    stored = (await rig.objects())["job"]
    await api.replace_status(PODS, {**stored, "status": {**stored["status"], "message": "the last one"}})
    await rig.stop()
    assert rig.status()["message"] == "the last one"


async def test_new_file_creates_its_objects_and_removed_file_deletes_them(rig: Rig) -> None:
    await rig.start()
    rig.write("a.yaml", pod("a"), pod("b"))
    await rig.runs("a")
    await rig.runs("b")
    (rig.pods / "a.yaml").unlink()
    await rig.is_gone("a")
    await rig.is_gone("b")
    assert await rig.objects() == {}
    assert sorted(e.pod for e in rig.events if isinstance(e, PodDeleted)) == ["a", "b"]


async def test_pod_with_a_changed_spec_is_recreated(rig: Rig) -> None:
    rig.write("job.yaml", pod())
    await rig.start()
    old = await rig.runs()
    rig.write("job.yaml", pod(image="two"))
    new = await rig.runs(image="two")
    assert new["uid"] != old["uid"]


async def test_labels_are_changed_in_place(rig: Rig) -> None:
    rig.write("job.yaml", pod())
    program = await rig.start()
    old = await rig.runs()
    rig.write("job.yaml", pod().replace("{name: job}", "{name: job, labels: {new: yes}}"))
    async with asyncio.timeout(PATIENCE), aclosing(program.node.api.watch(PODS)) as events:
        labelled = await anext(e.object async for e in events if e.object["metadata"].get("labels") == {"new": "yes"})
    assert (labelled["metadata"]["uid"], labelled["status"]["phase"]) == (old["uid"], "Running")


async def test_deleted_pod_is_recreated_from_its_file(rig: Rig) -> None:
    rig.write("job.yaml", pod())
    program = await rig.start()
    old = await rig.runs()
    await program.node.api.delete(PODS, "job", "default")
    await until(lambda: rig.status().get("uid") not in (None, old["uid"]), PATIENCE)
    await rig.runs()


async def test_invalid_file_is_rejected_and_other_files_apply(rig: Rig) -> None:
    rig.write("bad.yaml", pod("good"), "\nkind: [")
    rig.write("job.yaml", pod())
    await rig.start()
    await rig.runs()
    await rig.refuses(("bad.yaml", 10, "invalid YAML: expected the node content, but found '<stream end>'"))
    assert list(await rig.objects()) == ["job"]


async def test_objects_of_a_file_stay_while_the_file_is_invalid(rig: Rig) -> None:
    rig.write("job.yaml", pod())
    await rig.start()
    old = await rig.runs()
    for half in ("", "apiVersion: v1\nkind: P", pod()[:60]):
        rig.events.clear()
        rig.write("job.yaml", half)
        await until(lambda: rig.refused, PATIENCE)
    rig.write("fence.yaml", pod("fence"))
    await rig.runs("fence")
    assert rig.status()["uid"] == old["uid"]


async def test_duplicate_object_passes_to_the_second_file_after_removal(rig: Rig) -> None:
    rig.write("a.yaml", pod())
    await rig.start()
    old = await rig.runs()
    rig.write("b.yaml", pod(), pod("other"))
    await rig.refuses(("b.yaml", 0, "Pod default/job is already in a.yaml"))
    (rig.pods / "a.yaml").unlink()
    await rig.runs("other")
    assert rig.status()["uid"] == old["uid"]


NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {owner: me}}
"""


async def namespaces(rig: Rig) -> dict[str, Object]:
    """The labels of the namespaces, without that of the server."""
    assert rig.program
    found = await rig.program.node.api.list(NAMESPACES)
    own = "kubernetes.io/metadata.name"
    labels = {obj["metadata"]["name"]: obj["metadata"]["labels"] for obj in found}
    return {name: {key: value for key, value in there.items() if key != own} for name, there in labels.items()}


def pod_in(namespace: str) -> str:
    return pod().replace("{name: job}", f"{{name: job, namespace: {namespace}}}")


async def test_a_namespace_is_made_from_its_file_and_deleted_with_it(rig: Rig) -> None:
    rig.write("a.yaml", pod_in("team"))
    program = await rig.start()
    await rig.runs_in("team")
    async with asyncio.timeout(PATIENCE), aclosing(program.node.api.watch(NAMESPACES)) as events:
        rig.write("b.yaml", NAMESPACE)
        old = await anext(e.object async for e in events if e.object["metadata"]["labels"].get("owner") == "me")
        (rig.pods / "b.yaml").unlink()
        rig.write("c.yaml", pod_in("team").replace("job", "fence"))
        await until(lambda: status_in(rig.pods, "fence", "team"), PATIENCE)
        kept = await program.node.api.get(NAMESPACES, "team")  # it stays while it is used
        assert (kept["metadata"]["uid"], kept["metadata"]["labels"]) == (
            old["metadata"]["uid"],
            old["metadata"]["labels"],
        )
        (rig.pods / "a.yaml").unlink()
        (rig.pods / "c.yaml").unlink()
        await anext(event async for event in events if event.type == "DELETED")
    assert (await namespaces(rig)).keys() == {"default", "kube-system"}


async def test_a_namespace_that_exists_gets_the_labels_and_stays(rig: Rig) -> None:
    program = await rig.start()
    rig.write("a.yaml", NAMESPACE.replace("team", "default"), pod())
    await rig.runs()
    async with asyncio.timeout(PATIENCE), aclosing(program.node.api.watch(PODS)) as events:
        (rig.pods / "a.yaml").unlink()
        await anext(event async for event in events if event.type == "DELETED")
    assert (await namespaces(rig))["default"] == {"owner": "me"}


async def test_deleted_namespace_is_recreated_from_its_file(rig: Rig) -> None:
    rig.write("a.yaml", NAMESPACE, pod_in("team"))
    program = await rig.start()
    old = await rig.runs_in("team")
    await program.node.api.delete(NAMESPACES, "team")
    await until(lambda: rig.status_in("team").get("uid") not in (None, old["uid"]), PATIENCE)
    await rig.runs_in("team")
    assert (await namespaces(rig))["team"] == {"owner": "me"}
    assert rig.refused == []


async def test_object_not_created_from_a_manifest_is_not_changed(rig: Rig) -> None:
    program = await rig.start()
    mine = await program.node.api.create(CLAIMS, {"metadata": {"name": "gpu", "namespace": "default"}, "spec": {}})
    rig.write("claim.yaml", CLAIM)
    await rig.refuses(
        ("claim.yaml", 0, "ResourceClaim default/gpu: it already exists, and was not created from a manifest")
    )
    assert await program.node.api.get(CLAIMS, "gpu", "default") == mine


async def test_released_claim_gets_its_manifest_allocation_again(rig: Rig) -> None:
    rig.write("claim.yaml", CLAIM)
    rig.write("a.yaml", pod("a", claim=DIRECT))
    await rig.start()
    await rig.driver()
    await rig.shows(HEALTHY, name="a")
    (rig.pods / "a.yaml").unlink()
    await rig.is_gone("a")
    rig.write("b.yaml", pod("b", claim=DIRECT))
    await rig.shows(HEALTHY, name="b")


# Restarts


async def test_restart_restores_pods_and_health_before_any_driver_registers(rig: Rig) -> None:
    driver = await unhealthy_pod(rig)
    before = rig.status()
    await rig.stop()
    await driver.crash()  # so that nobody answers
    await rig.start()
    after = await rig.shows(UNHEALTHY)
    assert (after["uid"], after["resourceClaimStatuses"]) == (before["uid"], before["resourceClaimStatuses"])
    assert (after["phase"], [type(e) for e in rig.driver_events].count(Prepared)) == ("Running", 1)


async def test_file_removed_during_a_restart_deletes_and_unprepares_its_pod(rig: Rig) -> None:
    await unhealthy_pod(rig)
    await rig.stop()
    (rig.pods / "job.yaml").unlink()
    await rig.start()
    await until(lambda: [event for event in rig.events if isinstance(event, PodDeleted)], PATIENCE)
    assert [type(event) for event in rig.driver_events].count(Unprepared) == 1


async def test_pod_keeps_running_if_its_file_is_invalid_after_restart(rig: Rig) -> None:
    rig.write("job.yaml", pod())
    await rig.start()
    old = await rig.runs()
    await rig.stop()
    rig.write("job.yaml", "nonsense: [")
    await rig.start()
    await rig.refuses(("job.yaml", 1, "invalid YAML: expected the node content, but found '<stream end>'"))
    assert (await rig.runs())["uid"] == old["uid"]


async def test_a_client_works_after_a_restart(rig: Rig) -> None:
    await rig.start()
    kubeconfig = rig.root / "kubeconfig"
    before = kubeconfig.read_text()
    client = await KubeClient.from_kubeconfig(kubeconfig)
    await rig.stop()
    await rig.start()
    assert [node["metadata"]["name"] for node in await client.list(NODES)] == ["node-a"]
    await client.close()
    assert (kubeconfig.read_text(), kubeconfig.stat().st_mode & 0o777) == (before, 0o600)


async def test_unwritable_credentials_file_is_reported_as_an_error(rig: Rig) -> None:
    (rig.root / "credentials.json").mkdir()
    with pytest.raises(HarnessError, match=r"credentials\.json cannot be read or written: Is a directory"):
        await rig.start()


async def test_root_directory_of_another_node_is_rejected(rig: Rig) -> None:
    await rig.start()
    await rig.stop()
    with pytest.raises(HarnessError, match="is the root directory of node node-a, not of node-b"):
        await rig.start(node_name="node-b")


# Files of statuses


async def test_only_status_files_of_deleted_pods_are_removed(rig: Rig) -> None:
    rig.write("job.yaml", pod())
    await rig.start()
    await rig.runs()
    await rig.stop()
    (rig.pods / "job.yaml").unlink()
    (rig.pods / "mine.status.yaml").write_text("mine")
    await rig.start()
    await until(lambda: [event for event in rig.events if isinstance(event, PodDeleted)], PATIENCE)
    await rig.stop()
    assert [path.name for path in rig.pods.iterdir()] == ["mine.status.yaml"]


async def test_unwritable_status_file_is_logged_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    (rig.pods / "default.job.status.yaml").mkdir()
    rig.write("job.yaml", pod())
    await rig.start()
    await until(lambda: [r for r in caplog.records if "cannot be written" in r.getMessage()], PATIENCE)
    rig.write("fence.yaml", pod("fence"))
    await rig.runs("fence")
    assert len([r for r in caplog.records if r.levelno >= logging.ERROR]) == 1


async def test_damaged_root_directory_is_reported_as_an_error(rig: Rig) -> None:
    (rig.root / "api").write_text("in the way")
    with pytest.raises(HarnessError, match=r"the objects in .*api cannot be read: (File exists|Not a directory)"):
        await rig.start()
