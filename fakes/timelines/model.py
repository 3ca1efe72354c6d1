"""What a timeline file may say (`fault-timeline/v1`): steps, commands, durations and devices."""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
    create_model,
    model_validator,
)

from drahealth.fakes.control.definition import EACH, Argument, Command, Definition, Kind, Subject, defined
from drahealth.fakes.durations import EXAMPLES, HINT, Duration, Uniform, parse_signed
from drahealth.fakes.inventory.file import DeviceGroup
from drahealth.proto.values import Health

# The values in a timeline: durations, shares, devices that are named or drawn.


def _duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    if not isinstance(value, str):
        raise ValueError(f"invalid duration {value!r} ({HINT})")
    return Duration.parse(value)


def _signed(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError(f"invalid duration {value!r} (use 90s or -5m)")
    return parse_signed(value)


def _percent(value: Any) -> float:
    """80% as 0.8."""
    if isinstance(value, str) and value.endswith("%"):
        try:
            part = float(value.removesuffix("%")) / 100
        except ValueError:
            part = -1.0
        if 0 <= part <= 1:
            return part
    raise ValueError(f"must be between 0% and 100%, got {value!r}")


Lasting = Annotated[
    Duration,
    BeforeValidator(_duration),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": r"^ *(exp|\d)", "examples": list(EXAMPLES)}),
]
Offset = Annotated[
    float,
    BeforeValidator(_signed),
    PlainSerializer(lambda seconds: f"{seconds:g}s", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^ *[-+]?\d", "examples": ["-5m"]}),
]
Share = Annotated[
    float,
    BeforeValidator(_percent),
    PlainSerializer(lambda share: f"{share * 100:g}%", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "%$", "examples": ["80%"]}),
]


def _taking(value: Any) -> str:
    return "catalogue" if value == "catalogue" else "duration"


Taking = Annotated[
    Annotated[Literal["catalogue"], Tag("catalogue")] | Annotated[Lasting, Tag("duration")], Discriminator(_taking)
]
"""A duration, or what the catalogue says."""


def _chance(value: Any) -> str:
    return "share" if isinstance(value, str | float) and not isinstance(value, bool) else "flag"


Chance = Annotated[Annotated[bool, Tag("flag")] | Annotated[Share, Tag("share")], Discriminator(_chance)]
"""True, or in how many cases."""


class Part(BaseModel):
    """A part of a timeline: what it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True)


class Pick(Part):
    """A random choice of this number of devices from those that match the pattern."""

    pick: int = Field(ge=1)
    from_: str = Field(default="*", alias="from")


def shape(value: Any) -> str:
    """Selects the member of a union, so that errors refer to that member."""
    return "mapping" if isinstance(value, dict | BaseModel) else "word"


Where = Annotated[Annotated[str, Tag("word")] | Annotated[Pick, Tag("mapping")], Discriminator(shape)]
"""A device's name, a pattern of names (`gpu-0/mig-*`), `all`, or a draw from them."""


# What holds a timeline's devices: one pod, or the pods of a ReplicaSet, one after the other.

HELD = "held"
"""What `expect` may say in place of a device: those that the pod holds, whichever the scheduler has chosen."""

PodVerb = Literal["keeps-failing", "running", "deleted"]


class Workload(Part):
    """The Pod whose status is checked. Its only container requests the devices with one claim."""

    kind: Literal["Pod", "ReplicaSet"] = "Pod"
    """A ReplicaSet keeps one pod: another one takes the place of one that is deleted."""
    devices: int | None = Field(default=None, ge=1)
    """Number of devices, which the scheduler selects; default: all."""


# The steps of a timeline that are commands to a fake: what a file says of each is derived from its definition.

_VALUES: Mapping[Kind, Any] = {
    Kind.TEXT: str,
    Kind.INTEGER: int,
    Kind.FLAG: Chance,
    Kind.DURATION: Lasting,
    Kind.INTERVAL: Lasting,
    Kind.RECOVERY_TIME: Taking,
    Kind.OFFSET: Offset,
    Kind.SHARE: Share,
    Kind.TEXTS: tuple[str, ...],
}
"""What a file says of an argument."""

STEPS = {definition.step: definition for definition in defined("driver") if definition.step.isidentifier()}
"""The commands that are steps of their own, such as `inject`."""


def group(subject: Subject, name: str) -> dict[str, Definition]:
    """The commands of a group of steps, such as `life crash`, by their last word."""
    known = (definition for definition in defined(subject) if definition.step.startswith(f"{name} "))
    return {definition.step.partition(" ")[2]: definition for definition in known}


@cache
def own(definition: Definition) -> tuple[Argument, ...]:
    """Its arguments besides the devices."""
    return tuple(argument for argument in definition.arguments if argument.kind is not Kind.DEVICES)


@cache
def _mapping(definition: Definition) -> Any:
    """All arguments by name."""
    fields: dict[str, Any] = {
        a.name: (_value(a) if a.required else _value(a) | None, _default(a)) for a in own(definition)
    }
    return create_model(f"{definition.command.__name__}Arguments", __base__=Part, **fields)


def _value(argument: Argument) -> Any:
    return Literal[argument.choices] if argument.choices else _VALUES[argument.kind]


def _default(argument: Argument) -> Any:
    return ... if argument.required else None


def written(definition: Definition) -> Any:
    """What a file says of the command: its first argument, or a mapping of all; of one without arguments, true."""
    arguments = own(definition)
    if not arguments:
        return Literal[True]
    if len(arguments) == 1:
        return _value(arguments[0])
    words: Any = Annotated[_value(arguments[0]), Tag("word")]
    return Annotated[words | Annotated[_mapping(definition), Tag("mapping")], Discriminator(shape)]


def draw(definition: Definition, written: Any, random: Uniform, **more: Any) -> Command[Any]:
    """The command that a file says. Raises ValueError for one that makes no sense."""
    arguments = own(definition)
    if isinstance(written, Part):
        values = {name: value for name in written.model_fields_set if (value := getattr(written, name)) is not None}
        more |= {a.name: _drawn(a, values[a.name], random) for a in arguments if a.name in values}
    elif arguments and written is not None:
        more[arguments[0].name] = written if type(written) is str else _drawn(arguments[0], written, random)
    return definition.command(**more)


def _drawn(argument: Argument, value: Any, random: Uniform) -> Any:
    match value:
        case Duration():
            return value.draw(random)
        case float() if argument.kind is Kind.FLAG:
            return random.random() < value
        case _ if argument.kind is Kind.RECOVERY_TIME and value == EACH:
            return None
    return value


class OneOf(Part):
    """Just one of several things."""

    @model_validator(mode="after")
    def _one(self) -> "OneOf":
        if len(self.model_fields_set) != 1:
            raise ValueError(f"set exactly one of {', '.join(type(self).model_fields)}")
        return self

    @property
    def verb(self) -> str:
        """Which."""
        return next(iter(self.model_fields_set))


def stream_fields() -> dict[str, Any]:
    """What a step may say of the health streams: a command's argument, or how long one without arguments lasts."""
    found = group("driver", "stream")
    return {name: ((written(d) if own(d) else _FLAG_OR_TIME) | None, None) for name, d in found.items()}


def _flag(value: Any) -> str:
    return "flag" if isinstance(value, bool) else "time"


_FLAG_OR_TIME: Any = Annotated[
    Annotated[Literal[True], Tag("flag")] | Annotated[Lasting, Tag("time")], Discriminator(_flag)
]


def life_words(subject: Subject) -> Any:
    """The commands about the life of a fake, by a word."""
    return Literal[tuple(group(subject, "life"))]


if TYPE_CHECKING:
    CommandSteps = Part
    Life = OneOf
else:
    CommandSteps = create_model(
        "CommandSteps", __base__=Part, **{name: (written(d) | None, None) for name, d in STEPS.items()}
    )
    Life = create_model(
        "Life",
        __base__=OneOf,
        **{name: (_mapping(d) | None, None) for name, d in group("driver", "life").items() if own(d)},
    )
"""The steps that are commands, and the commands about a driver's life that have arguments."""


# What a timeline file may say (`fault-timeline/v1`).
#
# A timeline is a list of steps; a step has one verb, and says when and where. What is drawn at random (ranges,
# `pick`, `probability`) stays undrawn here. Names of faults, actions and devices are looked up by `plan`.

FORMAT: Literal["fault-timeline/v1"] = "fault-timeline/v1"


class Trigger(Part):
    """A condition for the start of a step, instead of a time."""

    calls: int | None = Field(default=None, ge=1)
    """Number of calls to the driver since the start, of any method or of `method`."""
    method: Literal["NodePrepareResources", "NodeUnprepareResources", "NodeWatchResources"] | None = None
    seen: Health | None = None
    """A Pod status shows this health, of `device` or any."""
    device: str | None = None

    @model_validator(mode="after")
    def _one(self) -> "Trigger":
        if (self.calls is None) == (self.seen is None):
            raise ValueError("set either calls or seen")
        if self.seen is not None and self.method is not None:
            raise ValueError("method is not allowed with seen, only with calls")
        if self.calls is not None and self.device is not None:
            raise ValueError("device is not allowed with calls, only with seen")
        return self


class Settings(Part):
    """New values of a device or its driver; other values stay."""

    health: Health | None = None
    message: str | None = None
    timeout: Lasting | None = None
    """Whole seconds."""
    heartbeat: Lasting | None = None
    """The driver's; 0s for none."""

    @model_validator(mode="after")
    def _something(self) -> "Settings":
        if not self.model_fields_set:
            raise ValueError("set needs one of health, message, timeout, heartbeat")
        return self


class Long(Part):
    """A message of this length."""

    length: int = Field(ge=0, le=1_000_000)


class DeviceMessage(Part):
    """What a message says about one device. The values can be invalid."""

    device: str
    pool: str | None = None
    """The driver's own, if none is named."""
    health: Health | int = Health.UNKNOWN
    """A number is sent as it is, be it one that nobody knows."""
    message: Annotated[Annotated[str, Tag("word")] | Annotated[Long, Tag("mapping")], Discriminator(shape)] = ""
    timeout: Offset | None = None
    """Whole seconds."""
    updated: Offset | None = None
    """The driver's own time of it, from now."""


class Message(Part):
    """One message of a stream: of several devices, or `raw` bytes in hexadecimal."""

    devices: tuple[DeviceMessage, ...] | None = None
    raw: str | None = Field(default=None, pattern=r"^([0-9a-fA-F]{2})*$")

    @model_validator(mode="after")
    def _one(self) -> "Message":
        if (self.raw is None) == (self.devices is None):
            raise ValueError("set either devices or raw")
        return self


def _sent(value: Any) -> str:
    """Whether a message is of one device or of several, or of bytes."""
    return "one" if (isinstance(value, DeviceMessage) or (isinstance(value, dict) and "device" in value)) else "whole"


Sent = Annotated[Annotated[DeviceMessage, Tag("one")] | Annotated[Message, Tag("whole")], Discriminator(_sent)]


if TYPE_CHECKING:
    Stream = OneOf
else:
    Stream = create_model("Stream", __base__=OneOf, send=(Sent | None, None), **stream_fields())
"""A stream fault, or what the streams do once; `send` is a message on them."""


class Listed(Part):
    """The report of a device plugin about a device: one of these."""

    health: str | None = None
    """Healthy, Unhealthy, or any other word."""
    listed: bool | None = None
    """Whether it is in the list at all."""

    @model_validator(mode="after")
    def _one(self) -> "Listed":
        if (self.health is None) == (self.listed is None):
            raise ValueError("set either health or listed")
        return self


if TYPE_CHECKING:
    LifeVerb = str | OneOf
    PluginVerb = str | Listed
else:
    LifeVerb = Annotated[
        Annotated[life_words("driver"), Tag("word")] | Annotated[Life, Tag("mapping")], Discriminator(shape)
    ]
    PluginVerb = Annotated[
        Annotated[life_words("device-plugin"), Tag("word")] | Annotated[Listed, Tag("mapping")],
        Discriminator(shape),
    ]


class PodWrites(Part):
    """How many times the kubelet may write the status of the pod, from the creation of the pod to this step."""

    max: int = Field(ge=0)


class Expectation(Part):
    """What a Pod status must show."""

    device: Where = "all"
    """Or `held`: those that the pod holds."""
    of: Literal["driver", "plugin"] = "driver"
    """Whose device: the DRA driver's, or the device plugin's of the same name."""
    health: Health | None = None
    message: str | None = None
    """A pattern with `*`; an empty one: no message."""
    pod_writes: PodWrites | None = None

    @model_validator(mode="after")
    def _something(self) -> "Expectation":
        if self.health is None and self.message is None and self.pod_writes is None:
            raise ValueError("expect needs one of health, message, pod_writes")
        return self


class Flap(Part):
    """A fault that is added once in each `period`, and removed after a share of the period."""

    device: Where
    down: str
    """The fault."""
    period: Lasting
    duty: Share = 0.5
    for_: Lasting = Field(alias="for")


class Repeat(Part):
    """Steps that are played several times. Their times count from the start of each round."""

    times: int | None = Field(default=None, ge=1)
    for_: Lasting | None = Field(default=None, alias="for")
    every: Lasting
    do: tuple["Step", ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one(self) -> "Repeat":
        if (self.times is None) == (self.for_ is None):
            raise ValueError("set either times or for")
        if self.for_ is not None and self.every.high <= 0:
            raise ValueError("every must be above 0s")
        return self


VERBS: Mapping[str, str] = {
    **{name: definition.help.partition("\n")[0] for name, definition in STEPS.items()},
    "set": "Set the reported health, message or timeout of `device`, or the heartbeat of the driver.",
    "stream": "Add a fault to the health streams, or send a message.",
    "driver": "Start, stop, restart, upgrade, crash or unregister the driver.",
    "plugin": "Start, stop, restart or crash the device plugin, or set what it reports for `device`.",
    "pod": "Make the containers of the Pod fail at each start, let them run again, or delete the Pod.",
    "kubelet": "Kill the kubelet and start it again, immediately or later.",
    "flap": "Add and remove a fault repeatedly.",
    "repeat": "Repeat a list of steps. In this list, the times of `at` count from the start of each round.",
    "parallel": "Play several lists of steps at the same time. The step ends when all lists have ended.",
    "expect": "Check that a Pod status shows this health before the end of a window. Otherwise the step fails.",
    "mark": "Write a text into the history and the report.",
}
"""Each step has one of these; what it means."""


class Step(CommandSteps):
    """A step: one verb, its time and its device."""

    at: Lasting | None = None
    """Time since the start of the timeline, or of the surrounding block."""
    after: Lasting | None = None
    """Time since the end of the previous step."""
    when: Trigger | None = None
    for_: Taking | None = Field(default=None, alias="for")
    """The step is undone after this time; `catalogue`, for inject: after the fault's recovery time."""
    probability: Share | None = None
    device: Where | None = None
    within: str | None = None
    """Of expect: a window (push, resync, start, restart) or a duration."""
    holds: Lasting | None = None
    """Of expect: the status must not change for this time."""

    set: Settings | None = None
    stream: Stream | None = None
    driver: LifeVerb | None = None
    plugin: PluginVerb | None = None
    pod: PodVerb | None = None
    kubelet: Literal["restart", "stop", "start"] | None = None
    flap: Flap | None = None
    repeat: Repeat | None = None
    parallel: tuple[tuple["Step", ...], ...] | None = None
    expect: Expectation | None = None
    mark: str | None = None

    @model_validator(mode="after")
    def _one_verb(self) -> "Step":
        wrong = list[str]()
        verbs = [verb for verb in VERBS if getattr(self, verb) is not None]
        if len(verbs) != 1:
            got = " and ".join(verbs) or "none"
            wrong.append(f"a step must have one of {', '.join(VERBS)}, got {got}")
        times = [name for name in ("at", "after", "when") if getattr(self, name) is not None]
        if len(times) > 1:
            wrong.append(f"a step can have only one of at, after, when; got {' and '.join(times)}")
        if wrong:
            raise ValueError("; ".join(wrong))
        self.__dict__["verb"] = verbs[0]  # which keeps the property from looking again
        return self

    @cached_property
    def verb(self) -> str:
        return next(verb for verb in VERBS if getattr(self, verb) is not None)


def _printable(name: str) -> str:
    if not name.isprintable():
        raise ValueError(f"a name must have only printable characters, got {name!r}")
    return name


def _inventory(value: Any) -> str:
    return "groups" if isinstance(value, list | tuple) else "word"


class Uses(Part):
    """The files and catalogues that define the names in a timeline."""

    catalogue: str = "nvidia"
    policy: str = "nvidia-catalogue"
    inventory: (
        Annotated[
            Annotated[str, Tag("word")] | Annotated[tuple[DeviceGroup, ...], Tag("groups")], Discriminator(_inventory)
        ]
        | None
    ) = None
    """The devices: a file beside the timeline's, or groups of them; default: two GPUs."""
    workload: Workload = Workload()
    """The pods that hold them; the default is one pod with all of them."""


class Timeline(Part):
    """A timeline file."""

    format: Literal["fault-timeline/v1"]
    name: Annotated[str, AfterValidator(_printable)] = Field(min_length=1)
    description: str = ""
    seed: int = 0
    use: Uses = Uses()
    timeline: tuple[Step, ...] = Field(min_length=1)
    always: tuple[Step, ...] = ()
    """Played at the end, whatever came before."""
