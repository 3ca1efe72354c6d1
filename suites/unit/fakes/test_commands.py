"""Command definitions: each one sets the handling fake, the methods and the wire format."""

import dataclasses
import json
import re
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

from drahealth.fakes.control.commands import (
    CODES,
    FAULTS,
    KINDS,
    Inject,
    Recover,
    Restart,
    StreamClose,
    StreamDelay,
    StreamDrop,
    TaintDevices,
    UntaintDevices,
    Upgrade,
)
from drahealth.fakes.control.definition import Command, Control, Handlers, Method, Subject, defined, subcommands
from drahealth.fakes.control.fake_options import DriverControl, PluginControl
from drahealth.fakes.control.wire import decode, encode
from drahealth.fakes.control.without_subcommand import Play, Remove, SetHealth
from drahealth.fakes.ctl.command import app as ctl
from drahealth.fakes.hardware.device_plugin import FakeDevicePlugin
from drahealth.fakes.hardware.driver import FakeDriver
from drahealth.fakes.kubelet_plugin.health_streams import KINDS as PIPE_KINDS
from drahealth.fakes.timelines.model import Life, Step, Stream, group
from drahealth.proto.values import DeviceHealth, Health

LIFE_WORDS = set(group("driver", "life"))
SUBJECTS: dict[Subject, tuple[type[Control], type[Handlers]]] = {
    "driver": (DriverControl, FakeDriver),
    "device-plugin": (PluginControl, FakeDevicePlugin),
}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_fake_handles_exactly_its_defined_commands(subject: Subject) -> None:
    assert SUBJECTS[subject][1].handled() == {definition.command for definition in defined(subject)}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_command_is_a_method_of_its_name(subject: Subject) -> None:
    found = {name: getattr(SUBJECTS[subject][0], name) for name in dir(SUBJECTS[subject][0])}
    methods = {name: method.command for name, method in found.items() if isinstance(method, Method)}
    assert methods == {definition.name: definition.command for definition in defined(subject)}


def test_each_command_with_a_step_is_in_the_timeline_schema() -> None:
    steps = {definition.step for definition in defined("driver") if definition.step}
    groups = {"life": Life.model_fields.keys() | LIFE_WORDS, "stream": Stream.model_fields}
    missing = {step for step in steps if step.split()[-1] not in groups.get(step.split()[0], Step.model_fields)}
    assert missing == set()


@pytest.mark.parametrize("words", subcommands())
def test_each_defined_subcommand_has_a_help_page(words: str) -> None:
    shown = CliRunner().invoke(ctl, [*words.split(), "--help"])
    assert (shown.exit_code, f"ctl {words} " in shown.output) == (0, True)


def test_every_command_with_a_subcommand_is_in_a_module_that_ctl_imports() -> None:
    assert set(subcommands()) == {d.ctl for subject in SUBJECTS for d in defined(subject)} - {""}


@pytest.mark.parametrize("words", subcommands())
def test_one_module_defines_a_subcommand_for_all_fakes(words: str) -> None:
    definitions = [d for subject in SUBJECTS for d in defined(subject) if d.ctl == words]
    assert len({definition.command.__module__ for definition in definitions}) == 1


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_command_and_argument_has_a_help_text(subject: Subject) -> None:
    texts = [text for d in defined(subject) for text in (d.help, *(argument.help for argument in d.arguments))]
    assert [text for text in texts if not text.endswith(".")] == []


@pytest.mark.parametrize(
    ("subject", "command"),
    [
        ("driver", Inject("xid/79", ("gpu-0", "gpu-*"))),
        ("driver", Recover("reboot", "all", fails=True, takes=None)),
        ("driver", SetHealth("gpu-0", Health.UNHEALTHY, None, 3)),
        ("driver", Play((DeviceHealth("p", "d", Health.UNKNOWN, "m", 1, 2),))),
        ("driver", Upgrade(2.5, ("v1",))),
        ("driver", StreamDrop(0.5)),
        ("device-plugin", Remove("gpu-0")),
    ],
)
def test_a_command_arrives_as_it_was_sent(subject: Subject, command: Command[Any]) -> None:
    line = json.loads(json.dumps({"call": command.verb, "args": encode(command)}))
    there = decode(subject, line["call"], line["args"])
    assert (type(there), encode(there)) == (type(command), encode(command))


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("inject", {"fault": "xid/79"}, "device: this field is required"),
        ("inject", {"fault": 3, "device": "gpu-0"}, "fault: must be a string"),
        ("inject", {"fault": "xid/79", "device": "gpu-0", "odd": 1}, "odd: unknown field"),
        ("stream_drop", {"share": 2}, "drop must be between 0% and 100%, got 200%"),
        ("fly", {}, "a driver has no command 'fly'"),
    ],
)
def test_wrong_arguments_and_names_are_rejected(name: str, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        decode("driver", name, args)


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        (StreamDelay, (-1.0,)),
        (StreamDelay, (float("inf"),)),
        (StreamClose, ("GONE",)),
        (Upgrade, (float("nan"),)),
        (Recover, ("reboot", "", False, False, -1.0)),
        (TaintDevices, ("gpu-0", "no key")),
        (UntaintDevices, ("gpu-0", "key", "Never")),
    ],
)
def test_command_with_invalid_arguments_is_rejected(kind: type[Command[Any]], args: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"must|unknown"):
        kind(*args)


def test_a_command_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Restart().offer = ("v1",)  # type: ignore[misc]


def test_names_that_this_module_may_not_import_are_those_of_the_streams_and_of_grpc() -> None:
    assert tuple(code.name for code in grpc.StatusCode) == CODES
    assert set(PIPE_KINDS) <= set(KINDS)
    assert len(FAULTS) == len(set(KINDS))
