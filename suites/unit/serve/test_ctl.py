"""`drahealth ctl`: commands for faults, recovery, taints and status, and rejected arguments."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_group

from drahealth.fakes.control.wire import LINE_LIMIT
from drahealth.fakes.ctl.command import OWN_OPTIONS, app
from drahealth.fakes.program.errors import CommandError
from drahealth.suites.unit import command_process
from drahealth.suites.unit.serve.rig import Rig, Said

HEALTHY = {"gpu-0": "Healthy", "gpu-1": "Healthy", "split-mig-0": "Healthy", "split-mig-1": "Healthy"}


async def test_a_fault_is_injected_and_recovered_by_what_is_enough(serving: Rig) -> None:
    assert await serving.ctl("inject", "xid/79", "gpu-0") == Said(0, "", "")
    assert await serving.health() == {**HEALTHY, "gpu-0": "Unhealthy"}
    assert await serving.ctl("recover", "gpu-reset", "gpu-0") == Said(1, "left: xid/79 on gpu-0\n", "")
    assert await serving.ctl("recover", "reboot") == Said(0, "cleared: xid/79 on gpu-0\n", "")
    assert await serving.health() == HEALTHY


async def test_a_share_of_the_devices_is_drawn_with_a_seed(serving: Rig) -> None:
    said = await serving.ctl("inject", "xid/48", "gpu-0", "gpu-1", "--percent", "50", "--seed", "7")
    assert (said.code, len((await serving.told("state"))["faults"])) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("inject", "xid/48"), "missing DEVICE"),
        (("inject", "xid/48", "--percent", "0"), "--percent must be above 0 and at most 100, got '0'"),
        (("inject", "xid/48", "--percent", "some"), "--percent must be above 0 and at most 100, got 'some'"),
        (("inject", "xid/48", "all", "--seed", "7"), "--seed needs --percent"),
        (("inject", "xid/48", "--rack", "rack-1"), "no selected device has the rack 'rack-1'"),
        (("inject", "xid/48", "--node", "fleet-*"), "no selected device is on a node 'fleet-*'"),
        (("reset", "--percent", "5"), "`reset` is not for single devices; remove --percent"),
        (("--fleet", "inject", "xid/48", "all"), "--socket and --fleet exclude each other"),
    ],
)
async def test_a_selection_that_makes_no_sense_changes_nothing(
    serving: Rig, arguments: tuple[str, ...], words: str
) -> None:
    said = await serving.ctl(*arguments)
    assert (said.code, said.err.startswith(f"drahealth: {words}")) == (2, True)
    assert (await serving.told("state"))["faults"] == {}


async def test_a_fault_of_a_divided_device_reaches_its_partitions(serving: Rig) -> None:
    await serving.ctl("inject", "xid/79", "split")
    assert await serving.health() == {**HEALTHY, "split-mig-0": "Unhealthy", "split-mig-1": "Unhealthy"}
    await serving.ctl("clear", "xid/79", "split")
    assert await serving.health() == HEALTHY


async def test_clear_of_an_absent_fault_fails_and_recover_reports_nothing(serving: Rig) -> None:
    unknown = await serving.ctl("clear", "xid/97", "gpu-0")
    nothing = Said(1, "", "drahealth: gpu-0 did not have xid/79\n")
    assert (unknown.code, await serving.ctl("clear", "xid/79", "gpu-0")) == (2, nothing)
    assert await serving.ctl("recover", "reboot", "gpu-1") == Said(0, "there is nothing to recover on gpu-1\n", "")


async def test_untaint_of_an_absent_taint_fails(serving: Rig) -> None:
    await serving.ctl("taint", "gpu-0", "example.com/sick")
    assert await serving.ctl("untaint", "gpu-0", "example.com/sick:NoExecute") == Said(
        1, "", "drahealth: gpu-0 did not have the taint example.com/sick:NoExecute\n"
    )
    assert await serving.ctl("untaint", "all", "example.com/sick") == Said(0, "", "")
    assert (await serving.ctl("untaint", "gpu-0", "example.com/sick")).code == 1


async def test_inject_names_devices_that_stay_healthy(serving: Rig) -> None:
    words = "{} Healthy; `drahealth faults show xid/63` gives the health by policy\n"
    assert (await serving.ctl("inject", "xid/79", "gpu-0")).out == ""
    assert (await serving.ctl("inject", "xid/63", "all")).out == words.format("gpu-1, split stay")
    await serving.ctl("clear", "xid/63", "all")
    assert (await serving.ctl("inject", "xid/63", "split")).out == words.format("split stays")


async def test_recover_with_fails_or_claimed_leaves_the_fault(serving: Rig) -> None:
    await serving.ctl("inject", "xid/79", "gpu-0")
    assert await serving.ctl("recover", "reboot", "gpu-0", "--fails") == Said(0, "left: xid/79 on gpu-0\n", "")
    claimed = Said(0, "claimed to be cleared: xid/79 on gpu-0\n", "")
    assert await serving.ctl("recover", "reboot", "gpu-0", "--claimed") == claimed
    assert (await serving.health(), (await serving.told("state"))["faults"]) == (HEALTHY, {"gpu-0": ["xid/79"]})


async def test_a_recovery_takes_the_time_that_it_is_given(serving: Rig) -> None:
    await serving.ctl("inject", "xid/79", "gpu-0")
    words = "cleared in 3600 s: xid/79 on gpu-0\n"
    assert await serving.ctl("recover", "reboot", "gpu-0", "--takes", "1h") == Said(0, words, "")
    again = await serving.ctl("recover", "reboot", "gpu-0")
    assert (again.code, "xid/79" in again.err) == (2, True)


async def test_reset_restores_health_faults_timeouts_and_heartbeat(serving: Rig) -> None:
    await serving.ctl("inject", "xid/79", "gpu-0")
    await serving.ctl("set", "gpu-1", "--health", "unknown", "--message", "who knows")
    await serving.ctl("stream", "stall")
    heartbeat = (await serving.told("state"))["heartbeat"]
    await serving.ctl("set", "gpu-0", "--timeout", "7", "--heartbeat", "0")
    assert await serving.ctl("reset") == Said(0, "", "")
    state = await serving.told("state")
    assert (await serving.health(), state["faults"], state["heartbeat"]) == (HEALTHY, {}, heartbeat)
    assert {device["timeout"] for device in await serving.told("devices")} == {0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("injct", "xid/79", "gpu-0"),
            "unknown command 'injct' of drahealth ctl; did you mean inject? ",
        ),
        (
            ("stream", "stal"),
            "unknown command 'stal' of drahealth ctl stream; did you mean stall? valid: silence, stall",
        ),
        (
            ("stream", "restore", "sillence"),
            "unknown stream fault 'sillence'; did you mean silence? valid: silence",
        ),
        (("inject",), "missing argument 'FAULT'; see drahealth ctl inject --help"),
        (("taint", "gpu-0"), "missing argument TAINT after DEVICE; see drahealth ctl taint --help"),
        (("inject", "xid/79", "gpu-0", "now"), "unknown device 'now'; valid: gpu-0, gpu-1, split"),
        (("inject", "xid/79", "nic-*"), "no device matches 'nic-*'; valid: gpu-0, gpu-1, split"),
        (("reset", "gpu-0"), "unexpected argument gpu-0; see drahealth ctl reset --help"),
        (("set", "gpu-0", "--health"), "option '--health' requires an argument; see drahealth ctl set --help"),
        (("recover", "reboot", "--claimd"), "unknown option --claimd; did you mean --claimed? see drahealth"),
        (("inject", "xid/79", "slpit"), "unknown device 'slpit'; did you mean split? valid: gpu-0, gpu-1"),
        (("inject", "xid/97", "gpu-0"), "unknown fault 'xid/97' in the catalogue nvidia; did you mean xid/95"),
        (("inject", "xid/79", "gpu-9"), "unknown device 'gpu-9'; valid: gpu-0, gpu-1, split"),
        (("recover", "gpu-rset"), "unknown recovery action 'gpu-rset'; did you mean gpu-reset"),
        (("--driver", "nic", "inject", "xid/79", "gpu-0"), "unknown driver 'nic'; valid: gpu.example.com"),
        (("inject", "gpu-0", "xid/79"), "gpu-0 is a device and xid/79 is a fault; pass the fault before the device"),
        (("clear", "gpu-0", "xid/79"), "gpu-0 is a device and xid/79 is a fault; pass the fault before the device"),
        (("inject", "gpu-0", "gpu-1"), "unknown fault 'gpu-0' in the catalogue nvidia; `drahealth faults list` lists"),
        (("set", "gpu-0", "--timeout", "-1"), "--timeout must be between 0 and 9223372036854775807 seconds, got -1"),
        (("recover", "reboot", "--takes", "soon"), "--takes: invalid duration 'soon'"),
    ],
)
async def test_invalid_arguments_are_rejected_with_a_one_line_error(
    serving: Rig, arguments: tuple[str, ...], words: str
) -> None:
    said = await serving.ctl(*arguments)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith(f"drahealth: {words}")
    assert (await serving.health(), (await serving.told("state"))["faults"]) == (HEALTHY, {})


async def test_unknown_node_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAHEALTH_STATE", str(tmp_path))
    done = await command_process.run_async(command_process.FAKES, "ctl", "--name", "nosuch", "status")
    assert (done.returncode, done.stderr.partition(";")[0]) == (2, "drahealth: there is no node nosuch (nodes: none)")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("status", "--name", "nosuch"), "there is no node nosuch"),
        (("watch", "--name=nosuch", "--json"), "there is no node nosuch"),
        (("inject", "xid/48", "--name", "nosuch", "gpu-0"), "there is no node nosuch"),
        (("stream", "silence", "1s", "--socket", "/none", "--name", "a"), "--socket and --name exclude each other"),
        (("status", "--name"), "--name needs a value"),
        (("set", "gpu-0", "--", "--name"), "nothing to set for gpu-0 --name"),
    ],
)
async def test_options_of_ctl_can_be_after_the_subcommand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: str
) -> None:
    monkeypatch.setenv("DRAHEALTH_STATE", str(tmp_path))
    done = await command_process.run_async(command_process.FAKES, "ctl", *words)
    assert (done.returncode, done.stderr.startswith(f"drahealth: {error}")) == (2, True), done.stderr


def test_no_subcommand_of_ctl_has_an_option_of_ctl() -> None:
    group: Any = get_group(app)
    context = typer.Context(group, info_name="ctl")
    commands = [parent.load(name) for parent in (group, group.load("stream")) for name in parent.list_commands(context)]
    found = {option for one in commands for parameter in one.get_params(context) for option in parameter.opts}
    assert ("--health" in found, found & set(OWN_OPTIONS)) == (True, set())


async def test_too_large_request_is_rejected_with_the_limit(serving: Rig) -> None:
    with pytest.raises(CommandError) as refused:
        await serving.told("set_health", device="gpu-0", health="Healthy", message="x" * LINE_LIMIT)
    assert (str(LINE_LIMIT) in str(refused.value), refused.value.code) == (True, 2)
    assert await serving.health() == HEALTHY


async def test_missing_command_prints_help_or_an_error(rig: Rig) -> None:
    shown, told = await rig.ctl("stream"), await rig.ctl()
    assert ("stall" in shown.out + shown.err, "has no" in shown.err) == (True, False)
    assert told == Said(2, "", "drahealth: missing command; see drahealth ctl --help\n")


async def test_missing_socket_error_names_the_socket_and_the_start_command(rig: Rig) -> None:
    said = await rig.ctl("status")
    assert (said.code, said.out, said.err.count("\n")) == (3, "", 1)
    assert said.err.startswith(f"drahealth: no socket {rig.socket}; use `drahealth up`")


async def test_status_shows_health_and_faults_of_all_devices(serving: Rig) -> None:
    await serving.ctl("inject", "xid/79", "gpu-1")
    shown = await serving.ctl("status")
    (driver,) = json.loads((await serving.ctl("status", "--json")).out)["drivers"]
    assert (driver["name"], driver["running"], driver["faults"]) == ("gpu.example.com", True, {"gpu-1": ["xid/79"]})
    assert [device["health"] for device in driver["devices"]] == ["Healthy", "Unhealthy", "Healthy", "Healthy"]
    assert shown.out.splitlines()[0] == "gpu.example.com on node-a: running, not registered"
    assert [word for word in shown.out.splitlines()[3].split() if word] == (
        ["gpu-1", "Unhealthy", "XID", "79:", "gpu-1", "has", "fallen", "off", "the", "bus", "xid/79"]
    )


async def test_status_shows_taints_and_stream_faults(serving: Rig) -> None:
    await serving.ctl("inject", "xid/63", "split/mig-0")
    await serving.ctl("taint", "split/mig-0", "example.com/sick=yes:NoExecute")
    await serving.ctl("stream", "drop", "20%")
    await serving.ctl("stream", "silence")
    shown = (await serving.ctl("status")).out.splitlines()
    assert shown[1].endswith("devices: 4 Healthy; stream faults: drop 0.2, silence")
    assert shown[-2].endswith("xid/63, taint example.com/sick=yes:NoExecute")


async def test_a_long_message_is_on_one_line_of_the_status(serving: Rig) -> None:
    message = " ".join(["a long story"] * 50)
    await serving.told("set_health", device="gpu-1", health="Unhealthy", message=message)
    assert message in (await serving.ctl("status")).out
