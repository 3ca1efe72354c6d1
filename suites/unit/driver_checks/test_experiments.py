"""The experiments on a running fake driver, and their records."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from drahealth.proto.events import (
    GrpcCall,
    RegistrationFailed,
    ReportReceived,
    SocketsListed,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.health_apis import HEALTH_APIS, V1
from drahealth.proto.services import GET_INFO, NOTIFY_REGISTRATION, PREPARE
from drahealth.proto.values import DeviceHealth, Health
from drahealth.suites.driver_checks.experiments import (
    DEVICE_PLUGIN_EXPERIMENTS,
    EXPERIMENTS,
    FAULT_EXPERIMENTS,
    Incomplete,
    NotApplicable,
)
from drahealth.suites.driver_checks.lab import Facts, Lab
from drahealth.suites.driver_checks.registration_experiments import LATE, described
from drahealth.suites.driver_checks.run_experiments import RUNS
from drahealth.suites.driver_checks.scripted_kubelet import Plugin, subscribed
from drahealth.suites.driver_checks.subject.subject import Subject
from drahealth.suites.unit.driver_checks.lab_rig import DRIVER, LabRig
from drahealth.suites.unit.driver_checks.runs import run_with


async def run(rig: LabRig, *names: str) -> None:
    """Runs experiments side by side; time flies. Raises the first error."""
    async with rig.time_flies():
        await asyncio.gather(*(RUNS[name](rig.lab()) for name in names))


def calls(rig: LabRig) -> list[tuple[str, str]]:
    return [(call.method.rpartition("/")[2], call.code) for call in rig.happened(GrpcCall)]


def plugin_known(rig: LabRig, driver: Any) -> None:
    plugin, registration = driver.sockets
    rig.facts.plugin.set_result(Plugin(DRIVER, registration, plugin, ("v1.DRAPlugin",)))


async def test_registration_accepts_the_driver(rig: LabRig) -> None:
    driver = await rig.driver()
    await run(rig, "registration")
    assert calls(rig) == [("GetInfo", "OK"), ("NotifyRegistrationStatus", "OK")]
    assert rig.happened(SocketsListed) == [
        SocketsListed("main", "registered", (str(driver.sockets[1]),), (str(driver.sockets[0]),))
    ]
    assert (await driver.state()).registered


async def test_registration_without_a_socket_is_incomplete_for_all(rig: LabRig) -> None:
    with pytest.raises(Incomplete, match="no registration socket"):
        await run(rig, "registration")
    with pytest.raises(Incomplete, match="no registration socket"):
        await RUNS["services"](rig.lab())


def lab_of(rig: LabRig, *command: str) -> Lab:
    """A lab of a driver that this command started."""
    subject = Subject("main", rig.places, rig.clock, rig.events.append, command=command)
    return Lab(subject, rig.events.append, Facts(), run_with())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("driver",), "a driver with fixed paths needs --sandbox"),
        (("driver", "--node={node_name}"), "pass {registry_dir} or {kubelet_dir}"),
        (("driver", "{kubelet_dir}"), "no registration socket within 30 s in {registry_dir};"),
        ((), "no registration socket within 30 s in /"),
    ],
)
async def test_reason_for_no_socket_names_the_next_step(rig: LabRig, command: tuple[str, ...], expected: str) -> None:
    async with rig.time_flies():
        with pytest.raises(Incomplete) as raised:
            await described(lab_of(rig, *command), 30)
    assert expected in str(raised.value)
    assert [event.problem for event in rig.happened(RegistrationFailed)] == [str(raised.value)]


def refuse_connections(writer: asyncio.StreamWriter) -> None:
    writer.close()


def silence(writer: asyncio.StreamWriter) -> None:
    """Never answers."""


@pytest.mark.parametrize("answer", [refuse_connections, silence])
async def test_incomplete_registration_names_the_socket_without_a_plugin(rig: LabRig, answer: Any) -> None:
    path = await rig.listen(answer)
    with pytest.raises(Incomplete, match=f"^{path}: "):
        await run(rig, "registration")


async def test_failed_get_info_is_the_reason_of_other_experiments(rig: LabRig) -> None:
    path = await rig.serve({})
    await run(rig, "registration")
    with pytest.raises(Incomplete, match=f"^{path}: GetInfo failed: UNIMPLEMENTED"):
        await RUNS["services"](rig.lab())


async def test_registration_among_several_drivers_needs_a_socket(rig: LabRig) -> None:
    async def get_info(request: Any, context: Any) -> Any:
        return GET_INFO.response(type="DRAPlugin", name="other.example.com")

    driver = await rig.driver()
    await rig.serve({GET_INFO: get_info})
    with pytest.raises(Incomplete, match="has several drivers"):
        await run(rig, "registration")
    rig.facts = Facts()
    rig.places = replace(rig.places, socket=driver.sockets[1])
    await run(rig, "registration")
    assert rig.facts.plugin.result().driver == DRIVER


async def test_registration_completes_without_get_info(rig: LabRig) -> None:
    await rig.serve({})
    await run(rig, "registration")
    assert set(calls(rig)) == {("GetInfo", "UNIMPLEMENTED")}


async def test_registration_with_an_unusable_endpoint_is_refused(rig: LabRig) -> None:
    answered = []

    async def get_info(request: Any, context: Any) -> Any:
        return GET_INFO.response(
            type="DRAPlugin", name=DRIVER, endpoint="dra.sock", supported_versions=["v1.DRAPlugin"]
        )

    async def notify(request: Any, context: Any) -> Any:
        answered.append(request.plugin_registered)
        return NOTIFY_REGISTRATION.response()

    await rig.serve({GET_INFO: get_info, NOTIFY_REGISTRATION: notify})
    with pytest.raises(Incomplete, match="absolute path"):
        await run(rig, "registration")
    assert answered == [False]


async def test_refused_driver_receives_get_info_again(rig: LabRig) -> None:
    driver = await rig.driver()
    began = rig.clock.now()
    await run(rig, "refused-registration")
    assert rig.clock.now() - began >= LATE
    assert calls(rig) == [("GetInfo", "OK"), ("NotifyRegistrationStatus", "OK"), ("GetInfo", "OK")]
    assert not (await driver.state()).registered


async def test_wait_ends_when_a_refused_driver_removes_its_socket(rig: LabRig) -> None:
    async def get_info(request: Any, context: Any) -> Any:
        return GET_INFO.response(type="DRAPlugin", name=DRIVER)

    async def notify(request: Any, context: Any) -> Any:
        path.unlink()
        return NOTIFY_REGISTRATION.response()

    path = await rig.serve({GET_INFO: get_info, NOTIFY_REGISTRATION: notify})
    await run(rig, "refused-registration")
    assert calls(rig) == [("GetInfo", "OK"), ("NotifyRegistrationStatus", "OK")]
    assert rig.happened(SocketsListed)[0].registry == ()


async def test_services_calls_every_service(rig: LabRig) -> None:
    plugin_known(rig, await rig.driver(dra_versions=("v1beta1.DRAPlugin",), health_apis=("v1.DRAResourceHealth",)))
    await RUNS["services"](rig.lab())
    assert {(call.method, call.code) for call in rig.happened(GrpcCall)} == {
        (PREPARE["v1.DRAPlugin"].path[1:], "UNIMPLEMENTED"),
        (PREPARE["v1beta1.DRAPlugin"].path[1:], "OK"),
    }
    assert [opened.health_api for opened in rig.happened(StreamOpened)] == list(HEALTH_APIS)
    assert [closed.code for closed in rig.happened(StreamClosed)] == ["CANCELLED", *3 * ["UNIMPLEMENTED"]]
    assert rig.facts.health_apis.result() == ("v1.DRAResourceHealth",)


async def test_reregistration_registers_at_the_same_socket(rig: LabRig) -> None:
    plugin_known(rig, await rig.driver())
    await run(rig, "reregistration")
    assert calls(rig) == [("GetInfo", "OK"), ("NotifyRegistrationStatus", "OK"), ("NodePrepareResources", "OK")]


async def test_watch_sees_each_device_refreshed(rig: LabRig) -> None:
    plugin_known(rig, await rig.driver())
    apis = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
    rig.facts.health_apis.set_result(apis)
    began = rig.clock.now()
    await run(rig, "watch")
    assert rig.clock.now() - began >= 36
    streams = {opened.stream: opened.health_api for opened in rig.happened(StreamOpened)}
    reports = Counter(streams[report.stream] for report in rig.happened(ReportReceived))
    assert sorted(streams.values()) == sorted(apis)
    assert min(reports.values()) >= 3


@pytest.mark.parametrize(
    ("timeout", "heartbeat", "least", "most"),
    [(30, 10, 39, 46), (120, 50, 49, 56), (60, 0, 61, 67), (600, 0, 125, 131), (0, 0, 36, 43)],
)
async def test_watch_follows_each_report_to_the_next_one_or_its_timeout(
    rig: LabRig, timeout: int, heartbeat: float, least: float, most: float
) -> None:
    plugin_known(rig, await rig.driver(timeout=timeout, heartbeat=heartbeat))
    rig.facts.health_apis.set_result(("v1.DRAResourceHealth",))
    began = rig.clock.now()
    await run(rig, "watch")
    assert least <= rig.clock.now() - began <= most


async def test_watch_follows_the_streams_of_other_subscribers(rig: LabRig) -> None:
    async def one_report(request: Any, context: Any) -> AsyncGenerator[Any, None]:
        yield V1.encode([DeviceHealth("pool", "gpu-0", Health.HEALTHY, timeout=60)], {})
        await asyncio.Event().wait()

    plugin_known(rig, await rig.driver())
    rig.facts.health_apis.set_result((V1.name,))
    silent = rig.plugin(await rig.serve({V1.method: one_report}))
    began = rig.clock.now()
    async with subscribed(silent, V1, rig.clock, rig.events.append) as stream:
        rig.facts.watched.append(stream)
        await run(rig, "watch")
    assert rig.clock.now() - began >= 61


async def test_watch_ends_when_all_streams_have_ended(rig: LabRig) -> None:
    plugin_known(rig, await rig.driver(health_apis=()))
    rig.facts.health_apis.set_result(("v1.DRAResourceHealth",))
    await RUNS["watch"](rig.lab())  # time passes slowly, so it would take 36 s
    assert [closed.code for closed in rig.happened(StreamClosed)] == ["UNIMPLEMENTED"]


@pytest.mark.parametrize("name", ["watch", "subscribers", "slow-subscriber"])
async def test_driver_without_health_is_not_watched(rig: LabRig, name: str) -> None:
    plugin_known(rig, await rig.driver(health_apis=()))
    await RUNS["services"](rig.lab())
    with pytest.raises(NotApplicable):
        await run(rig, name)


async def test_subscribers_experiment_opens_four_streams(rig: LabRig) -> None:
    plugin_known(rig, await rig.driver())
    rig.facts.health_apis.set_result(("v1.DRAResourceHealth",))
    await run(rig, "subscribers")
    opened = {event.stream for event in rig.happened(StreamOpened)}
    reported = {event.stream for event in rig.happened(ReportReceived)}
    assert (len(opened), reported) == (4, opened)


async def test_slow_subscriber_reads_one_report_until_the_watch_ends(rig: LabRig) -> None:
    plugin_known(rig, await rig.driver())
    rig.facts.health_apis.set_result(("v1.DRAResourceHealth",))
    watch = asyncio.Event()
    async with rig.time_flies():
        work = asyncio.create_task(RUNS["slow-subscriber"](rig.lab(ended={"watch": watch})))
        await RUNS["watch"](rig.lab())
        watch.set()
        await work
    streams = [opened.stream for opened in rig.happened(StreamOpened)]
    reports = Counter(report.stream for report in rig.happened(ReportReceived))
    assert sorted(min(reports[stream], 2) for stream in streams) == [1, 2]


def test_experiment_names_are_unique() -> None:
    plans = (DEVICE_PLUGIN_EXPERIMENTS, FAULT_EXPERIMENTS)
    assert all(EXPERIMENTS[one.name] is one for plan in plans for one in plan)
    assert RUNS.keys() == EXPERIMENTS.keys()
