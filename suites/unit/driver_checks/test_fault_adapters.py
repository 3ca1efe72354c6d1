"""The fault adapters: their actions, their failures and their time limits."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe

import pytest
from aiohttp import web

from drahealth.fakes.cluster.api import NODES
from drahealth.fakes.cluster.api_server.server import ApiServer
from drahealth.proto.clock import SystemClock
from drahealth.suites.commands.certify_run import judged
from drahealth.suites.driver_checks.fault_adapters import FaultAdapters, with_values
from drahealth.suites.driver_checks.profile.faults import (
    Action,
    CallHttp,
    CreateFile,
    PatchObject,
    RemoveFile,
    RunCommand,
    SetEnvironment,
    TellBackend,
    WriteFile,
)
from drahealth.suites.driver_checks.profile.file import read_profile
from drahealth.suites.driver_checks.run_experiments import run_experiments
from drahealth.suites.driver_checks.subject.gateway import create_objects
from drahealth.suites.driver_checks.subject.subject import ActionFailed, Surroundings
from drahealth.suites.driver_checks.verdicts import Verdict
from drahealth.suites.errors import ConfigurationError
from drahealth.suites.unit.driver_checks.certificates import TODAY
from drahealth.suites.unit.driver_checks.node_driver import COMMAND, KEY
from drahealth.suites.unit.driver_checks.runs import fault
from drahealth.suites.unit.driver_checks.test_claim_experiments import PLACES
from drahealth.suites.unit.driver_checks.test_objects import CONFIG, DEFINITION, GADGET, GADGETS

BACKEND = """\
import sys
print("starting", flush=True)
print("ready", sys.argv[1], flush=True)
for line in sys.stdin:
    if line.startswith("exit"):
        sys.exit("broken")
    print("failed: no such device" if "gpu-9" in line else "done", flush=True)
"""


@pytest.fixture
async def adapters() -> AsyncIterator[FaultAdapters]:
    found = FaultAdapters(Surroundings(SystemClock(), ApiServer(clock=SystemClock())))
    yield found
    await found.close()


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def failure(adapters: FaultAdapters, action: Action, limit: float = 30) -> ActionFailed:
    with pytest.raises(ActionFailed) as failed:
        await adapters.perform(action, {}, limit)
    return failed.value


async def test_files_are_created_written_and_removed(adapters: FaultAdapters, tmp_path: Path) -> None:
    values, path = {"device": "gpu-1", "driver_dir": str(tmp_path)}, tmp_path / "health" / "gpu-1"
    path.parent.mkdir()
    await adapters.perform(CreateFile("{driver_dir}/health/{device}", "new"), values, 5)
    created = path.read_text()
    await adapters.perform(WriteFile("{driver_dir}/health/{device}", "{device} broke"), values, 5)
    assert (created, path.read_text(), names(path.parent)) == ("new", "gpu-1 broke", ["gpu-1"])
    await adapters.perform(RemoveFile("{driver_dir}/health/{device}"), values, 5)
    assert not path.exists()


async def test_file_actions_without_effect_fail(adapters: FaultAdapters, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    os.mkfifo(tmp_path / "fifo")
    for action in (
        CreateFile(str(tmp_path / "there")),
        RemoveFile(str(tmp_path / "missing")),
        WriteFile(str(tmp_path / "fifo"), "nobody reads"),
        WriteFile(str(tmp_path), "a folder"),
        CreateFile(str(tmp_path / "none" / "a")),
        WriteFile(str(tmp_path / "none" / "a"), "no folder"),
    ):
        assert not (await failure(adapters, action)).timed_out


async def test_a_command_runs_without_a_shell(adapters: FaultAdapters, tmp_path: Path) -> None:
    await adapters.perform(RunCommand(("touch", "{driver_dir}/$HOME")), {"driver_dir": str(tmp_path)}, 30)
    assert names(tmp_path) == ["$HOME"]


async def test_a_command_that_fails_or_is_missing_is_an_error(adapters: FaultAdapters) -> None:
    failed = await failure(adapters, RunCommand(("sh", "-c", "echo no such device; exit 3")))
    assert "code 3" in str(failed)
    assert "no such device" in str(failed)
    assert not (await failure(adapters, RunCommand(("/no/such/program",)))).timed_out


async def test_a_command_that_hangs_is_killed_with_its_children(adapters: FaultAdapters, tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = f"sleep 1000 & echo $! > {child}.new; mv {child}.new {child}; wait"
    hanging = RunCommand(("sh", "-c", script))
    limit = 0.5
    while not child.exists():  # a busy machine may not start it in time
        limit *= 2
        assert (await failure(adapters, hanging, limit)).timed_out
    assert child.read_text().strip() not in names(Path("/proc"))


async def test_an_object_is_patched_and_annotations_are_removed(adapters: FaultAdapters) -> None:
    assert adapters._around.api
    await adapters._around.api.create(NODES, {"metadata": {"name": "node-a", "labels": {"zone": "a"}}})
    for value in ("yes", None):
        merge = {"metadata": {"annotations": {"broken-gpu-0": value}}}
        await adapters.perform(PatchObject("Node", "{node_name}", "", {**merge}), {"node_name": "node-a"}, 30)
        found = (await adapters._around.api.get(NODES, "node-a"))["metadata"]
        assert (found.get("annotations") or {}) == ({"broken-gpu-0": "yes"} if value else {})
    assert found["labels"] == {"zone": "a"}


async def test_an_object_of_any_kind_is_patched(adapters: FaultAdapters) -> None:
    api = adapters._around.api
    assert api
    await create_objects(api, [CONFIG, DEFINITION, GADGET], PLACES)
    config = PatchObject("ConfigMap", "gpus", "default", {"data": {"broken": "gpu-1"}})
    await adapters.perform(config, {}, 30)
    gadget = PatchObject("Gadget", "of-node-a", "default", {"spec": {"size": 2}}, "example.com/v1")
    await adapters.perform(gadget, {}, 30)
    stored = await api.get(await api.kind_of(CONFIG), "gpus", "default")
    assert stored["data"] == {"broken": "gpu-1", "node": "node-a"}
    assert (await api.get(GADGETS, "of-node-a", "default"))["spec"] == {"size": 2}


@pytest.mark.parametrize(("kind", "name"), [("Node", "missing"), ("Toaster", "a")])
async def test_an_object_that_cannot_be_patched_is_an_error(adapters: FaultAdapters, kind: str, name: str) -> None:
    assert not (await failure(adapters, PatchObject(kind, name, "", {"metadata": {}}))).timed_out


async def test_http_requests_succeed_fail_and_time_out(adapters: FaultAdapters) -> None:
    seen: list[tuple[str, str, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, await request.text(), request.headers.get("x-token")))
        if request.path == "/hangs":
            await asyncio.Event().wait()
        return web.Response(status=200 if request.path == "/ok" else 500, text="no such device")

    app = web.Application()
    app.router.add_route("*", "/{path}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        await adapters.perform(CallHttp(f"{url}/ok", "PUT", "{device}", {"x-token": "a"}), {"device": "gpu-1"}, 30)
        assert seen == [("PUT", "gpu-1", "a")]
        assert "500: no such device" in str(await failure(adapters, CallHttp(f"{url}/error")))
        assert (await failure(adapters, CallHttp(f"{url}/hangs"), 0.5)).timed_out
    finally:
        await runner.cleanup()
    assert not (await failure(adapters, CallHttp(f"{url}/ok"))).timed_out


def backend(folder: Path, text: str = BACKEND) -> Path:
    path = folder / "backend.py"
    path.write_text(text)
    return path


async def test_backend_performs_commands_again_after_a_restart(adapters: FaultAdapters, tmp_path: Path) -> None:
    script = backend(tmp_path)
    breaks = TellBackend(script, ("{driver_dir}",), "break {device}")
    await adapters.start([fault("xid", breaks, TellBackend(script, (), "heal {device}"))], {"driver_dir": "/d"})
    await adapters.perform(breaks, {"device": "gpu-1"}, 30)
    assert "no such device" in str(await failure(adapters, with_values(breaks, {"device": "gpu-9"})))
    await adapters.kill_backend(script)
    assert "is not running" in str(await failure(adapters, breaks))
    await adapters.restart_backend(script)
    await adapters.perform(breaks, {"device": "gpu-1"}, 30)


async def test_a_backend_that_exits_or_does_not_answer_is_an_error(adapters: FaultAdapters, tmp_path: Path) -> None:
    script = backend(tmp_path)
    await adapters.start([fault("xid", TellBackend(script, ("a",), "exit"), "none")], {})
    assert "exited; its last line of output: broken" in str(await failure(adapters, TellBackend(script, (), "exit")))
    silent = backend(tmp_path, "print('ready')\nimport sys\nsys.stdout.flush()\nfor line in sys.stdin: pass\n")
    await adapters.restart_backend(silent)
    assert (await failure(adapters, TellBackend(silent, (), "break"), 0.5)).timed_out


async def test_a_backend_that_cannot_start_is_an_error_of_the_profile(adapters: FaultAdapters, tmp_path: Path) -> None:
    script = backend(tmp_path, "raise SystemExit('no library')")
    with pytest.raises(ConfigurationError, match="no library"):
        await adapters.start([fault("xid", TellBackend(script, (), "break"), "none")], {})


def test_placeholders_are_replaced_in_all_strings() -> None:
    values = {"device": "gpu-1", "node_name": "node-a"}
    found = with_values(SetEnvironment({"FAIL": "{device}"}), values)
    patch = with_values(PatchObject("Node", "{node_name}", "", {"metadata": {"x": ["{device}"]}}), values)
    assert found == SetEnvironment({"FAIL": "gpu-1"})
    assert patch == PatchObject("Node", "node-a", "", {"metadata": {"x": ["gpu-1"]}})


async def test_adapters_follow_a_driver_to_another_kubelet(adapters: FaultAdapters, tmp_path: Path) -> None:
    script = tmp_path / "backend.py"
    script.write_text(
        BACKEND.replace("sys.argv[1]", "sys.argv[1], file=open(sys.argv[1], 'w')").replace(
            'print("starting", flush=True)', 'print("ready", flush=True)'
        )
    )
    hot = fault("hot", TellBackend(script, ("{driver_dir}/seen",), "break"), TellBackend(script, (), "heal"))
    api = ApiServer(clock=SystemClock())
    await api.create(NODES, {"metadata": {"name": "there"}})
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    await adapters.start([hot], {"driver_dir": str(tmp_path / "a")})
    await adapters.perform(hot.break_, {}, 30)
    await adapters.move([hot], {"driver_dir": str(tmp_path / "b")}, api, Path)
    await adapters.perform(hot.break_, {}, 30)
    await adapters.perform(PatchObject("Node", "there", "", {"metadata": {"labels": {"a": "b"}}}), {}, 30)
    assert [names(tmp_path / folder) for folder in ("a", "b")] == [["seen"], ["seen"]]
    assert (await api.get(NODES, "there"))["metadata"]["labels"] == {"a": "b"}


# `drahealth certify` with the fault adapters `http`, `patch` and `annotate`, from driver profile to verdicts.

PATCH = f"""
break = {{ patch = "Node/{{node_name}}", merge = {{ metadata = {{ labels = {{ "{KEY}" = "{{device}}" }} }} }} }}
heal = {{ patch = "Node/{{node_name}}", merge = '{{"metadata": {{"labels": {{"{KEY}": null}}}}}}' }}
"""
ANNOTATE = f"""
break = {{ annotate = "Node/{{node_name}}", annotations = {{ "{KEY}" = "{{device}}" }} }}
heal = {{ annotate = "Node/{{node_name}}", remove-annotations = ["{KEY}"] }}
"""
HTTP = """
break = { http = "URL/break", body = "{driver_dir}/health/{device}" }
heal = { http = "URL/heal", method = "DELETE", body = "{driver_dir}/health/{device}" }
"""
EXPERIMENTS = frozenset({"registration", "services", "faults", "fault-plan"})


def switch(path: Path, *, broken: bool) -> None:
    """Breaks or heals a device of the driver."""
    path.parent.mkdir(exist_ok=True)
    if broken:
        path.with_suffix(".draft").write_text("Unhealthy simulated")
        path.with_suffix(".draft").replace(path)
    else:
        path.unlink()


@pytest.fixture
async def device_simulator() -> AsyncIterator[str]:
    """An HTTP server that breaks the device whose file it gets; its URL, which other users do not know."""

    async def handle(request: web.Request) -> web.Response:
        switch(Path(await request.text()), broken=request.method != "DELETE")
        return web.Response()

    app, secret = web.Application(), token_urlsafe()
    app.router.add_route("*", f"/{secret}/{{verb}}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    yield f"http://{host}:{port}/{secret}"
    await runner.cleanup()


@pytest.mark.parametrize("actions", [PATCH, ANNOTATE, HTTP], ids=["patch", "annotate", "http"])
async def test_driver_is_asked_to_report_a_fault(tmp_path: Path, device_simulator: str, actions: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        f'format = "driver-profile/v1"\n[driver]\ncommand = {json.dumps(COMMAND)}\n'
        f'[[fault]]\nname = "asked"\nsettle = "20s"\n{actions.replace("URL", device_simulator)}'
    )
    evidence = await run_experiments(replace(read_profile(path), only=EXPERIMENTS), adapters=FaultAdapters)
    _, report = judged(evidence, "00" * 32, (), TODAY, "")
    found = {one.id: one for one in report.requirements if one.id in ("FAULT-01", "FAULT-02", "FAULT-05", "FAULT-06")}
    assert {one.verdict for one in found.values()} == {Verdict.PASS}, [one.findings for one in found.values()]
    assert {finding.grade for one in found.values() for finding in one.findings} == {"asked"}
    assert report.abilities == {"faults": "asked", "recoveries": "asked"}
    assert report.certificate is not None
    assert "faults asked" in report.certificate.text
