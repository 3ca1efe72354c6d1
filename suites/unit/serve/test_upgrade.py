"""Upgrade of a served driver in its process with `drahealth ctl upgrade`."""

import asyncio
import signal
from pathlib import Path

import grpc.aio
import pytest

from drahealth.fakes.cluster.api import PODS
from drahealth.fakes.program.errors import CommandError
from drahealth.fakes.serve.metrics import Metrics
from drahealth.proto.services import NOTIFY_REGISTRATION
from drahealth.proto.sockets import target
from drahealth.suites.unit.endings import PATIENCE
from drahealth.suites.unit.manager.rig import until
from drahealth.suites.unit.serve.rig import DRIVER, Rig, Said
from drahealth.suites.unit.serve.test_pod_annotations import KEY, World, pod
from drahealth.suites.unit.serve.test_program import SOCKETS, line, run

NEWER = "upgrade-1"
NEWER_SOCKETS = [
    "control.sock",
    f"plugins/{DRIVER}/.dra-{NEWER}",
    f"plugins/{DRIVER}/dra-{NEWER}.sock",
    f"plugins_registry/.{DRIVER}-{NEWER}-reg",
    f"plugins_registry/{DRIVER}-{NEWER}-reg.sock",
]


async def registers(rig: Rig, instance: str = "", error: str = "") -> None:
    """A kubelet says so, once the instance is there."""
    path = rig.root / f"plugins_registry/{'-'.join(filter(None, (DRIVER, instance)))}-reg.sock"
    assert await until(path.is_socket, PATIENCE)
    async with grpc.aio.insecure_channel(target(path)) as channel:
        said = NOTIFY_REGISTRATION.request(plugin_registered=not error, error=error)
        await NOTIFY_REGISTRATION.stub(channel)(said, timeout=PATIENCE)


async def test_ctl_upgrade_prints_the_new_instance(serving: Rig) -> None:
    await registers(serving)
    await serving.told("inject", fault="xid/79", device="gpu-0")
    upgrading = asyncio.create_task(serving.ctl("upgrade", "--overlap", "10ms", "--offer", "v1alpha1"))
    await registers(serving, NEWER)
    assert await upgrading == Said(0, f"upgraded to instance {NEWER}\n", "")
    state = await serving.told("state")
    assert (serving.sockets(), state["faults"]) == (NEWER_SOCKETS, {"gpu-0": ["xid/79"]})
    assert state["health_apis"] == ["v1alpha1.DRAResourceHealth"]
    assert "running, registered, instance upgrade-1" in (await serving.ctl("status")).out


async def test_ctl_restarts_a_driver_with_other_health_apis(serving: Rig) -> None:
    assert await serving.ctl("restart", "--offer", "v1alpha1") == Said(0, "", "")
    assert (await serving.told("state"))["health_apis"] == ["v1alpha1.DRAResourceHealth"]
    refused = await serving.ctl("restart", "--offer", "v7")
    assert (refused.code, "'v7.DRAResourceHealth'" in refused.err, serving.sockets()) == (2, True, SOCKETS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--overlap", "soon"), "'soon'"),
        (("--overlap", "-1s"), "-1"),
        (("--offer", "v7"), "'v7.DRAResourceHealth'"),
    ],
)
async def test_invalid_upgrade_options_give_a_one_line_error(
    serving: Rig, arguments: tuple[str, ...], words: str
) -> None:
    refused = await serving.ctl("upgrade", *arguments)
    assert (refused.code, refused.err.count("\n"), serving.sockets()) == (2, 1, SOCKETS)
    assert words in refused.err


async def test_a_driver_that_stopped_is_not_upgraded(serving: Rig) -> None:
    await serving.told("stop")
    refused = await serving.ctl("upgrade")
    assert (refused.code, DRIVER in refused.err) == (2, True)


async def test_upgrade_to_an_instance_of_another_process_is_rejected(rig: Rig) -> None:
    await rig.serve()
    await rig.serve(instance=NEWER, socket=rig.root / "other.sock")
    refused = await rig.ctl("upgrade")
    where = rig.root / f"plugins/{DRIVER}/dra-{NEWER}.sock"
    assert (refused.code, str(where) in refused.err) == (2, True)
    assert (await rig.told("state"))["instance"] == ""


async def test_second_process_is_rejected_after_an_upgrade(rig: Rig) -> None:
    await rig.serve()
    await registers(rig)
    upgrading = asyncio.create_task(rig.told("upgrade", overlap=0))
    await registers(rig, NEWER)
    await upgrading
    with pytest.raises(CommandError) as refused:
        await rig.serve(socket=rig.root / "other.sock")
    where = rig.root / "plugins" / DRIVER / f"dra-{NEWER}.sock"
    assert str(where) in str(refused.value)
    assert (rig.sockets(), await rig.slices()) == (NEWER_SOCKETS, 1)


async def test_exit_during_an_upgrade_leaves_no_sockets_or_slices(rig: Rig) -> None:
    await rig.serve()
    await registers(rig)
    upgrading = asyncio.create_task(rig.ctl("upgrade", "--overlap", "1h"))
    await registers(rig, NEWER)
    assert await until(lambda: len(rig.sockets()) == 9, PATIENCE)
    await rig.end()
    assert (rig.sockets(), await rig.slices(), (await upgrading).code) == ([], 0, 3)
    assert not (rig.root / "plugins" / DRIVER).exists()


async def test_leftovers_of_a_process_killed_during_an_upgrade_are_removed(rig: Rig, kubeconfig: Path) -> None:
    process = await run(rig, kubeconfig)
    await line(process, "serving")
    upgrading = asyncio.create_task(rig.ctl("upgrade", "--overlap", "1h"))
    assert await until(lambda: len(rig.sockets()) == 9, PATIENCE)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    assert ((await upgrading).code, len(rig.sockets())) == (3, 9)
    await rig.serve()
    assert rig.sockets() == SOCKETS
    await rig.end()
    assert (rig.sockets(), await rig.slices()) == ([], 0)


async def test_metrics_keep_counting_after_an_upgrade(rig: Rig) -> None:
    program = await rig.serve()
    metrics = Metrics(program.drivers)
    await registers(rig)
    upgrading = asyncio.create_task(rig.told("upgrade", overlap=0))
    await registers(rig, NEWER)
    await upgrading
    text = (await metrics.text()).decode()
    method = "pluginregistration.Registration/NotifyRegistrationStatus"
    assert f'drahealth_fake_calls_total{{driver="{DRIVER}",method="{method}"}} 2.0' in text
    assert f'drahealth_fake_registered{{driver="{DRIVER}"}} 1.0' in text


async def test_annotations_of_pods_are_followed_by_the_newer_instance(rig: Rig) -> None:
    await rig.serve(pod_annotations=True)
    world = World(rig)
    await world.claim("gpu-0")
    await rig.api.create(PODS, pod(gpu_0="unhealthy"))
    await world.shows("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    await rig.told("upgrade", overlap=0)
    assert await world.said() == ("Unhealthy", f"set Unhealthy by annotation {KEY} of pod default/job")
    await world.says()
    await world.shows("Healthy")
