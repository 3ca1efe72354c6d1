"""The fake container runtime as a kubelet sees it: every test speaks gRPC over its socket."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from drahealth.fakes.cluster import cri as methods
from drahealth.fakes.cluster.cri import CriServer
from drahealth.fakes.cluster.runtime import ANNOTATION, ContainerRuntime
from drahealth.proto import cri_v1_pb2 as cri
from drahealth.suites.unit.endings import PATIENCE

Call = Callable[..., Awaitable[Any]]


@pytest.fixture
async def runtime() -> AsyncIterator[ContainerRuntime]:
    runtime = ContainerRuntime()
    yield runtime
    await runtime.close()


@pytest.fixture
async def call(runtime: ContainerRuntime, tmp_path: Path) -> AsyncIterator[Call]:
    server = CriServer(runtime, tmp_path / "cri.sock", tmp_path / "logs")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix:{server.socket}") as channel:

        async def call(method: Any, **fields: Any) -> Any:
            return await method.stub(channel)(method.request(**fields), timeout=PATIENCE)

        yield call
    await server.stop()


async def run_sandbox(
    call: Call, name: str = "train", network: Any = cri.POD, annotations: dict[str, str] | None = None
) -> str:
    config = cri.PodSandboxConfig(
        metadata={"name": name, "uid": f"uid-{name}", "namespace": "default", "attempt": 1},
        labels={"pod": name},
        annotations=annotations or {"note": "x"},
        linux={"security_context": {"namespace_options": {"network": network}}},
    )
    sandbox_id: str = (await call(methods.RUN_POD_SANDBOX, config=config)).pod_sandbox_id
    return sandbox_id


async def create(call: Call, sandbox_id: str, text: str = "sleep infinity") -> str:
    config = cri.ContainerConfig(
        metadata={"name": "main", "attempt": 2},
        image={"image": "sha256:abc", "user_specified_image": "busybox:1"},
        command=["sh", "-c"],
        args=[text],
        labels={"container": "main"},
        cdi_devices=[{"name": "vendor.example/gpu=0"}],
    )
    container_id: str = (await call(methods.CREATE_CONTAINER, pod_sandbox_id=sandbox_id, config=config)).container_id
    return container_id


async def test_runtime_reports_ready_version_and_cgroup_driver(call: Call) -> None:
    version = await call(methods.VERSION)
    status = await call(methods.STATUS)
    await call(methods.UPDATE_RUNTIME_CONFIG)
    assert (version.runtime_name, version.runtime_api_version) == ("drahealth", "v1")
    assert {c.type: c.status for c in status.status.conditions} == {"RuntimeReady": True, "NetworkReady": True}
    assert (await call(methods.RUNTIME_CONFIG)).linux.cgroup_driver == cri.CGROUPFS


async def test_pods_can_have_user_namespaces_of_their_own(call: Call) -> None:
    handlers = (await call(methods.STATUS)).runtime_handlers
    assert [(handler.name, handler.features.user_namespaces) for handler in handlers] == [("", True)]


async def test_sandbox_has_the_requested_configuration(call: Call) -> None:
    sandbox_id = await run_sandbox(call, network=cri.NODE)
    status = (await call(methods.POD_SANDBOX_STATUS, pod_sandbox_id=sandbox_id)).status
    [item] = (await call(methods.LIST_POD_SANDBOX)).items
    assert status.metadata == cri.PodSandboxMetadata(name="train", uid="uid-train", namespace="default", attempt=1)
    assert (item.id, item.metadata, item.created_at) == (sandbox_id, status.metadata, status.created_at)
    assert (status.linux.namespaces.options.network, status.network.ip) == (cri.NODE, "127.0.0.1")
    assert (dict(item.labels), dict(status.annotations)) == ({"pod": "train"}, {"note": "x"})


async def test_a_container_lives_through_its_states(call: Call, runtime: ContainerRuntime) -> None:
    container_id = await create(call, await run_sandbox(call))

    async def state() -> Any:
        return (await call(methods.CONTAINER_STATUS, container_id=container_id)).status.state

    states = [await state()]
    await call(methods.START_CONTAINER, container_id=container_id)
    states.append(await state())
    runtime.end("uid-train", "main", 9)
    status = (await call(methods.CONTAINER_STATUS, container_id=container_id)).status
    assert [*states, status.state] == [cri.CONTAINER_CREATED, cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED]
    assert (status.exit_code, status.reason, status.metadata.attempt) == (9, "Error", 2)
    assert 0 < status.created_at <= status.started_at <= status.finished_at


async def test_script_without_sleep_has_exited_when_start_returns(call: Call) -> None:
    container_id = await create(call, await run_sandbox(call), "exit 1")
    await call(methods.START_CONTAINER, container_id=container_id)
    status = (await call(methods.CONTAINER_STATUS, container_id=container_id)).status
    assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 1)


async def test_prepared_cdi_devices_reach_the_container(call: Call, runtime: ContainerRuntime) -> None:
    container_id = await create(call, await run_sandbox(call))
    config = runtime.container(container_id).config
    assert (config.cdi_devices, config.image) == (("vendor.example/gpu=0",), "busybox:1")


async def test_stop_uses_the_grace_period(call: Call, runtime: ContainerRuntime) -> None:
    ids = [await create(call, await run_sandbox(call)) for _ in range(2)]
    for container_id, timeout in zip(ids, (30, 0), strict=True):
        await call(methods.START_CONTAINER, container_id=container_id)
        await call(methods.STOP_CONTAINER, container_id=container_id, timeout=timeout)
    assert [runtime.container(container_id).exit_code for container_id in ids] == [143, 137]


async def test_each_container_has_a_log_file_of_its_own(call: Call, tmp_path: Path) -> None:
    sandbox_id = await run_sandbox(call)
    ids = [await create(call, sandbox_id) for _ in range(2)]
    statuses = [(await call(methods.CONTAINER_STATUS, container_id=container_id)).status for container_id in ids]
    paths = [Path(status.log_path) for status in statuses]
    assert (set(paths), len(paths)) == (set((tmp_path / "logs").iterdir()), 2)
    paths[0].unlink()
    await call(methods.REOPEN_CONTAINER_LOG, container_id=ids[0])
    assert paths[0].exists()


async def test_logs_go_with_their_container_or_its_sandbox(call: Call, tmp_path: Path) -> None:
    sandbox_id = await run_sandbox(call)
    first, _ = await create(call, sandbox_id), await create(call, sandbox_id)
    await call(methods.REMOVE_CONTAINER, container_id=first)
    left = len(list((tmp_path / "logs").iterdir()))
    await call(methods.REMOVE_POD_SANDBOX, pod_sandbox_id=sandbox_id)
    assert (left, list((tmp_path / "logs").iterdir())) == (1, [])


async def test_container_list_matches_all_filter_fields(call: Call) -> None:
    one, other = await run_sandbox(call), await run_sandbox(call, "other")
    running, created = await create(call, one), await create(call, other)
    await call(methods.START_CONTAINER, container_id=running)

    async def found(**wanted: Any) -> list[str]:
        response = await call(methods.LIST_CONTAINERS, filter=cri.ContainerFilter(**wanted))
        return [container.id for container in response.containers]

    assert await found() == [running, created]
    assert await found(id=created) == [created]
    assert await found(state={"state": cri.CONTAINER_CREATED}) == [created]
    assert await found(state={"state": cri.CONTAINER_UNKNOWN}) == []
    assert await found(pod_sandbox_id=one, label_selector={"container": "main"}) == [running]
    assert await found(label_selector={"container": "side"}) == []


async def test_sandbox_list_matches_all_filter_fields(call: Call) -> None:
    one, other = await run_sandbox(call), await run_sandbox(call, "other")
    await call(methods.STOP_POD_SANDBOX, pod_sandbox_id=one)

    async def found(**wanted: Any) -> list[str]:
        response = await call(methods.LIST_POD_SANDBOX, filter=cri.PodSandboxFilter(**wanted))
        return [sandbox.id for sandbox in response.items]

    assert await found() == [one, other]
    assert await found(state={"state": cri.SANDBOX_READY}) == [other]
    assert await found(state={"state": cri.SANDBOX_NOTREADY}, id=one) == [one]
    assert await found(label_selector={"pod": "other"}) == [other]


async def test_statistics_list_the_existing_containers(call: Call) -> None:
    sandbox_id = await run_sandbox(call)
    container_id = await create(call, sandbox_id)
    one = (await call(methods.CONTAINER_STATS, container_id=container_id)).stats
    [listed] = (await call(methods.LIST_CONTAINER_STATS, filter={"pod_sandbox_id": sandbox_id})).stats
    [sandbox] = (await call(methods.LIST_POD_SANDBOX_STATS, filter={"label_selector": {"pod": "train"}})).stats
    assert one.attributes.id == container_id
    assert (listed, list(sandbox.linux.containers), sandbox.attributes.id) == (one, [one], sandbox_id)


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (methods.POD_SANDBOX_STATUS, "pod_sandbox_id"),
        (methods.CREATE_CONTAINER, "pod_sandbox_id"),
        (methods.START_CONTAINER, "container_id"),
        (methods.CONTAINER_STATUS, "container_id"),
        (methods.CONTAINER_STATS, "container_id"),
        (methods.REOPEN_CONTAINER_LOG, "container_id"),
    ],
)
async def test_an_unknown_id_is_not_found(call: Call, method: Any, field: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(method, **{field: "nobody"})
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert "'nobody'" in str(refused.value.details())


async def test_stopping_or_removing_an_unknown_id_is_no_error(call: Call) -> None:
    for method in (methods.STOP_CONTAINER, methods.REMOVE_CONTAINER):
        await call(method, container_id="gone")
    for sandbox_method in (methods.STOP_POD_SANDBOX, methods.REMOVE_POD_SANDBOX):
        await call(sandbox_method, pod_sandbox_id="gone")


async def test_a_stopped_sandbox_takes_no_container(call: Call) -> None:
    sandbox_id = await run_sandbox(call)
    await call(methods.STOP_POD_SANDBOX, pod_sandbox_id=sandbox_id)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await create(call, sandbox_id)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_any_image_exists_with_a_stable_id(call: Call) -> None:
    image = (await call(methods.IMAGE_STATUS, image={"image": "busybox:1"})).image
    again = (await call(methods.IMAGE_STATUS, image={"image": image.id})).image
    pulled = await call(methods.PULL_IMAGE, image={"image": "busybox:1"})
    assert {image.id, again.id, pulled.image_ref} == {image.id}
    assert (list(image.repo_tags), list(again.repo_tags), image.uid.value > 0) == (["busybox:1"], [], True)


async def test_the_images_in_use_are_listed(call: Call) -> None:
    sandbox_id = await run_sandbox(call)
    for _ in range(2):
        await create(call, sandbox_id)
    [image] = (await call(methods.LIST_IMAGES)).images
    none = (await call(methods.LIST_IMAGES, filter={"image": {"image": "other"}})).images
    await call(methods.REMOVE_IMAGE, image={"image": image.id})
    assert (list(image.repo_tags), list(none)) == (["busybox:1"], [])


async def test_the_images_take_no_space_in_the_folder_of_the_run(call: Call, tmp_path: Path) -> None:
    info = await call(methods.IMAGE_FS_INFO)
    [usage] = info.image_filesystems
    assert (usage.fs_id.mountpoint, usage.used_bytes.value) == (str(tmp_path / "logs"), 0)
    assert list(info.container_filesystems) == [usage]


async def test_containers_outlive_the_server(runtime: ContainerRuntime, tmp_path: Path, call: Call) -> None:
    container_id = await create(call, await run_sandbox(call))
    second = CriServer(runtime, tmp_path / "second.sock", tmp_path / "logs")
    await second.start()
    async with grpc.aio.insecure_channel(f"unix:{second.socket}") as channel:
        found = await methods.LIST_CONTAINERS.stub(channel)(cri.ListContainersRequest(), timeout=PATIENCE)
    await second.stop()
    assert [container.id for container in found.containers] == [container_id]
    assert not second.socket.exists()


async def test_a_socket_that_was_left_is_replaced(runtime: ContainerRuntime, tmp_path: Path) -> None:
    socket = tmp_path / "cri.sock"
    socket.touch()
    server = CriServer(runtime, socket, tmp_path / "logs")
    await server.start()
    assert socket.is_socket()
    await server.stop()


def test_invalid_socket_path_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shorter directory"):
        CriServer(ContainerRuntime(), tmp_path / ("x" * 108), tmp_path)


async def test_the_output_of_a_script_is_in_the_log_of_its_container(call: Call) -> None:
    sandbox_id = await run_sandbox(call, annotations={ANNOTATION: "echo one; echo two; exit 4"})
    container_id = await create(call, sandbox_id)
    await call(methods.START_CONTAINER, container_id=container_id)
    status = (await call(methods.CONTAINER_STATUS, container_id=container_id)).status
    assert (output(status.log_path), status.exit_code) == (["stdout F one", "stdout F two"], 4)


def output(log: str) -> list[str]:
    """The lines of a log, without their times."""
    return [line.split(" ", 1)[1] for line in Path(log).read_text().splitlines()]


async def test_a_pod_with_an_invalid_script_gets_no_container(call: Call) -> None:
    sandbox_id = await run_sandbox(call, annotations={ANNOTATION: "reboot"})
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await create(call, sandbox_id)
    assert (caught.value.code(), "reboot" in str(caught.value.details())) == (grpc.StatusCode.INVALID_ARGUMENT, True)


@pytest.mark.parametrize("method", [methods.EXEC, methods.EXEC_SYNC, methods.ATTACH, methods.PORT_FORWARD])
async def test_exec_attach_and_port_forward_are_rejected_as_unimplemented(call: Call, method: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="not supported by the fake runtime") as caught:
        await call(method)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
