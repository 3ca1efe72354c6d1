"""Whether a timeline makes sense for its devices: names, and steps that contradict each other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from drahealth.fakes.control.commands import (
    Clear,
    Crash,
    Inject,
    Recover,
    Reset,
    Restart,
    RestartDevicePlugin,
    SetHeartbeat,
    Start,
    Stop,
    StreamClose,
    TaintDevices,
    Unregister,
    UntaintDevices,
    Upgrade,
)
from drahealth.fakes.control.definition import Subject
from drahealth.fakes.control.without_subcommand import Remove, Restore, SetHealth, SetListedHealth
from drahealth.fakes.durations import Duration
from drahealth.fakes.faults import catalogue as faults
from drahealth.fakes.faults.catalogue import Fault, Policy, UnknownName, action, fault
from drahealth.fakes.hardware.failing import Machine
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.program.user_files import Finding, Place
from drahealth.fakes.timelines.load import Loaded
from drahealth.fakes.timelines.model import HELD, STEPS, OneOf, Pick, Step, Timeline
from drahealth.fakes.timelines.plan import (
    ENDING,
    Action,
    ChangeKubelet,
    ChangePod,
    Expect,
    Mark,
    Plan,
    PlanError,
    Send,
    plan,
)
from drahealth.proto.health_apis import HEALTH_APIS, full_name
from drahealth.proto.values import Health

# Whether a plan contradicts itself: what it does cannot be done then, or what it expects excludes itself. Pure.
#
# Steps with a trigger are left out: their times are unknown. If faults depend on the seed, recoveries without a fault
# and taints are not checked. What devices show is checked only where the steps leave no doubt about it.


def contradictions(
    actions: Sequence[Action], inventory: Inventory, catalogue: str, policy: Policy | None, *, by_chance: bool = False
) -> Iterator[Finding]:
    """What cannot be so, each with its place. `by_chance`: the faults and taints that there are depend on the seed.

    Without a policy, the health of devices with faults is not known.
    """
    story = _Story(catalogue, by_chance)
    is_expected = any(isinstance(one.do, Expect) and one.do.health for one in actions)
    triggered = any(one.trigger and not isinstance(one.do, Expect | Mark) for one in actions)
    reported = _Reported(inventory, catalogue, policy) if policy and is_expected and not triggered else None
    wrong = set[Place]()
    for action_ in actions:
        if not action_.trigger:
            found = [*story.next(action_)]
            if reported and (excluded := reported.next(action_)) and action_.place not in wrong and not found:
                found = [excluded]
                wrong.add(action_.place)  # one error for all devices of the step
            yield from ((action_.place, what) for what in found)
    for (place, at), helped in story.helped.items():
        if not helped and not by_chance:
            yield place, f"no device of this step has a fault at {at:g} s; inject one first, or remove this step"


_NAMES = {"driver": "driver", "plugin": "device plugin", "kubelet": "kubelet"}


@dataclass
class _Story:
    """The state at each moment of a plan."""

    catalogue: str
    by_chance: bool
    has: dict[str, dict[str, float]] = field(default_factory=dict)
    """The faults of each device, and when each is over."""
    helped: dict[tuple[Place, float], bool] = field(default_factory=dict)
    """Of each recovery, by its place and time, whether any of its devices had a fault."""
    busy: dict[str, float] = field(default_factory=dict)
    """Until when a device is being recovered."""
    upgraded: float = 0.0
    """Until when two instances of the driver run."""
    taints: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """The keys and effects of those that each device has."""
    fails: bool = False
    """The pod keeps failing."""
    runs: dict[str, bool] = field(default_factory=lambda: {"driver": True, "plugin": True, "kubelet": True})
    expected: dict[tuple[str, str], tuple[float, Action]] = field(default_factory=dict)

    def next(self, did: Action) -> Iterator[str]:
        if self.expected and not isinstance(
            did.do, Expect | Mark
        ):  # things change, and what was expected of this moment is past
            self.expected = {key: (until, old) for key, (until, old) in self.expected.items() if until > did.at}
        for had in self.has.values():
            for name in [name for name, until in had.items() if until <= did.at]:
                del had[name]
        if not isinstance(did.do, Mark | SetHealth):  # which contradict nothing, and are many
            yield from self._happens(did)

    def _happens(self, did: Action) -> Iterator[str]:
        match did.do:
            case Inject() as inject:
                yield from self._inject(did, inject)
            case Clear(fault=name):
                self.has.get(did.device, {}).pop(name, None)
            case Recover() as recover:
                yield from self._recover(did, recover)
            case Reset():
                self.has.clear()
                self.busy.clear()
                self.taints.clear()
            case Upgrade() | Start() | Stop() | Crash() | Restart() | RestartDevicePlugin() | Unregister():
                yield from self._run(did, "plugin" if did.of == "device-plugin" else "driver", did.verb)
            case ChangeKubelet(what=verb):
                yield from self._run(did, "kubelet", verb)
            case TaintDevices(key=key, effect=effect):
                self.taints.setdefault(did.device, set()).add((key, effect))
            case UntaintDevices() as untaint:
                yield from self._untaint(did, untaint)
            case ChangePod(what=state):
                yield from self._change_pod(did, state)
            case StreamClose() | Send() if not self.runs["driver"]:
                what = did.verb.removeprefix("stream_")
                yield _not_running("driver", did, f"`{what}` has no stream")
            case Expect() as expect:
                yield from self._expect(did, expect)
            case SetListedHealth() | Remove() | Restore() if not self.runs["plugin"]:
                yield _not_running("device plugin", did, "it lists no devices")

    def _change_pod(self, did: Action, verb: str) -> Iterator[str]:
        if not self.runs["kubelet"] and verb != "running":
            yield _not_running("kubelet", did, "pods do not change")
        if self.fails and verb == "keeps-failing":
            yield f"the pod already keeps failing at {did.at:g} s; remove this step"
        self.fails = verb == "keeps-failing"

    def _inject(self, did: Action, inject: Inject) -> Iterator[str]:
        faults = self.has.setdefault(did.device, {})
        if inject.fault in faults:
            yield f"{did.device} already has {inject.fault} at {did.at:g} s; clear it first"
        whole = did.device.partition("/")[0]
        for gone in {whole, did.device}:
            for name in self.has.get(gone, {}):
                if name != inject.fault and (known := self._known(name)) and known.vanishes:
                    omitted = f"the driver omits {gone} from reports at {did.at:g} s because of {name}"
                    yield f"{omitted}; recover {gone} before this step"
        faults[inject.fault] = float("inf")

    def _recover(self, did: Action, recover: Recover) -> Iterator[str]:
        concerned = [path for path in self.has if self.has[path] and _is_in(path, did.device)]
        when = did.place, did.at
        self.helped[when] = self.helped.get(when, False) or bool(concerned)
        late = {path: until for path in concerned if (until := self.busy.get(path, 0.0)) > did.at}
        for path, until in late.items():
            yield f"{path} is already recovering at {did.at:g} s, until {until:g} s; wait until then"
        over = did.at + (recover.takes or 0.0)
        for path in concerned:
            self.busy[path] = over
            for name in self.has[path]:
                if not recover.fails and not recover.claimed and self._is_enough(recover.action, name):
                    self.has[path][name] = over

    def _run(self, did: Action, who: str, verb: str) -> Iterator[str]:
        if not self.runs[who] and verb not in ("start", "restart"):
            yield _not_running(_NAMES[who], did, f"`{verb}` is impossible")
        if verb in ("start", "restart", "upgrade") and not self.runs["kubelet"] and who != "kubelet":
            yield _not_running("kubelet", did, f"no {_NAMES[who]} can register")
        if isinstance(did.do, Upgrade):
            if self.upgraded > did.at:
                yield f"the driver is already being upgraded at {did.at:g} s, until {self.upgraded:g} s"
            self.upgraded = did.at + did.do.overlap
        elif who == "driver" and verb in ("crash", "stop", "restart"):
            self.upgraded = 0.0  # which ends both
        if verb != "unregister":
            self.runs[who] = verb not in ("crash", "stop")

    def _untaint(self, did: Action, untaint: UntaintDevices) -> Iterator[str]:
        there = self.taints.setdefault(did.device, set())
        gone = {taint for taint in there if taint[0] == untaint.key and untaint.effect in ("", taint[1])}
        if not gone and not self.by_chance:
            yield f"{did.device} has no taint {untaint.key} at {did.at:g} s; add it before, or remove this step"
        there -= gone

    def _expect(self, did: Action, expect: Expect) -> Iterator[str]:
        key = (did.device, did.of)
        until, before = self.expected.get(key, (-1.0, did))
        other = before.do.health if isinstance(before.do, Expect) else None
        if expect.health and other not in (None, expect.health) and did.at <= until:
            yield f"{did.device} is expected {expect.health} at {did.at:g} s, but {other} by {before.step}"
        over = did.at + expect.holds
        if expect.health and over >= until:
            self.expected[key] = (over, did)

    def _known(self, name: str) -> Fault | None:
        with suppress(UnknownName):
            return fault(self.catalogue, name)
        return None

    def _is_enough(self, name: str, fault_name: str) -> bool:
        known = self._known(fault_name)
        with suppress(UnknownName):
            return known is None or known.is_recovered_by(action(name))
        return True


class _Reported:
    """The health that the fakes report of each device, where the steps leave no doubt about it.

    A device that no step has changed is left out: `drahealth ctl` can have changed it before.
    """

    def __init__(self, inventory: Inventory, catalogue: str, policy: Policy) -> None:
        self.doubtful = set[Subject]()
        """Fakes whose reports may not reach the kubelet, or whose devices change at unknown times."""
        self._inventory = inventory
        self._policy = policy
        self._leaves = frozenset(inventory.leaves)
        self._machine = Machine(inventory, catalogue, policy)
        self._decided = dict[tuple[Subject, str], Action]()
        """The step that decided the reported health of a device."""
        self._set = dict[tuple[Subject, str], Health]()
        """The health that a step has set, whatever the faults."""
        self._recovering = set[str]()
        """The devices of which a recovery can still be in progress."""

    def next(self, did: Action) -> str:
        """An error, if the step expects what the steps before exclude; else nothing."""
        if isinstance(did.do, Expect):
            return self._expect(did, did.do)
        with suppress(ValueError):  # an unknown name is an error of its own
            self._change(did)
        return ""

    def _change(self, did: Action) -> None:
        match did.do:
            case Inject(fault=name):
                self._decide(did, self._machine.inject(name, did.device))
            case Clear(fault=name):
                self._decide(did, self._machine.clear(name, did.device))
            case Recover() as recover:
                self._recover(did, recover)
            case SetHealth(health=health):
                self._decide(did, self._inventory.reached(did.device, "device") if health else (), health)
            case SetListedHealth(health=word):
                health = Health.HEALTHY if word == Health.HEALTHY else Health.UNHEALTHY
                self._decide(did, self._inventory.reached(did.device, "device"), health)
            case Remove() | Restore():
                for path in self._inventory.reached(did.device, "device"):
                    self._decided.pop((did.of, path), None)
            case Reset():
                self._machine.reset()
                self._recovering.clear()
                self._decide(did, self._leaves, Health.HEALTHY)
                self._decide(did._replace(of="device-plugin"), self._leaves, Health.HEALTHY)
            case ChangeKubelet():
                self.doubtful |= {"driver", "device-plugin"}
            case Mark() | ChangePod() | SetHeartbeat() | TaintDevices() | UntaintDevices():
                pass  # which change no health
            case _:
                self.doubtful.add(did.of)

    def _recover(self, did: Action, recover: Recover) -> None:
        if recover.fails:
            return
        devices = [did.device] if did.device else []
        if recover.claimed:
            changed = self._machine.claim(self._machine.faults_on(*devices))
        else:
            changed = self._machine.recover(action(recover.action), *devices).changed
        self._decide(did, changed)
        if recover.takes != 0:
            self._recovering |= changed

    def _decide(self, did: Action, paths: Iterable[str], health: Health | None = None) -> None:
        """The step decides the health of these devices: this one, or that of their faults."""
        for path in self._leaves.intersection(paths):
            self._decided[did.of, path] = did
            self._set.pop((did.of, path), None)
            if health:
                self._set[did.of, path] = health

    def _expect(self, did: Action, expect: Expect) -> str:
        if expect.health in (None, Health.UNKNOWN) or did.of in self.doubtful:  # a timeout can make a device Unknown
            return ""
        paths = self._leaves
        if did.device != HELD:
            paths = paths.intersection(self._inventory.reached(did.device, "device"))
        found = {path: self._health(did.of, path) for path in paths}
        if not found or any(health in (None, expect.health) for health in found.values()):
            return ""
        path = min(found)
        by, health = self._decided[did.of, path], found[path]
        what = " ".join([*by.verb.split("_"), *([by.what] if isinstance(by.what, str) else [])])
        policy = f" under the policy {self._policy.name}" if isinstance(by.do, Inject) else ""
        device = "each device" if did.device == HELD else did.device
        return (
            f"{device} is expected {expect.health} at {did.at:g} s, but {by.step} ({what}) makes it {health}{policy}; "
            f"expect {health}, or change {by.step}"
        )

    def _health(self, of: Subject, path: str) -> Health | None:
        """The reported health of a device; None if it is not certain."""
        if (of, path) not in self._decided:
            return None
        found = self._set.get((of, path)) or self._machine.state(path).health
        return None if path in self._recovering and found is not Health.UNHEALTHY else found


def _is_in(path: str, device: str) -> bool:
    """Whether a recovery of the device is one of what this path names."""
    return not device or path == device or path.startswith(f"{device}/")


def _not_running(who: str, did: Action, effect: str) -> str:
    return f"the {who} is not running at {did.at:g} s, so {effect}; start the {who} before this step"


# Whether a timeline makes sense for these devices: names are known, and its plan does not contradict itself. Pure.

WINDOWS = ("push", "resync", "start", "restart")
"""What `within` may name."""


def checked_plan(loaded: Loaded, inventory: Inventory, seed: int | None = None) -> Plan:
    """The plan of a timeline that makes sense. Raises FileError with all that is wrong, by line."""
    planned, found = judged(loaded, inventory, seed)
    if planned is None or found:
        raise loaded.document.error(found)
    return planned


def judged(loaded: Loaded, inventory: Inventory | None, seed: int | None = None) -> tuple[Plan | None, list[Finding]]:
    """The plan, if there is one, and all errors that can be found.

    Of an ill-formed timeline and of unknown devices, names are looked up; whether what is left contradicts itself,
    nobody knows.
    """
    story = loaded.timeline
    found = [*unknown(story, loaded.unsure)]
    if inventory is None or loaded.unsure & {"catalogue", "inventory"}:
        return None, found
    found += _not_there(story, inventory, loaded.unsure)
    try:
        planned = plan(story, inventory, seed)
    except PlanError as error:
        return None, [*found, *_news(found, error.findings)]
    if not loaded.problems:
        use, by_chance = story.use, _is_by_chance(story)
        policy = faults.policies().get(use.policy)
        contradicting = contradictions(planned.actions, inventory, use.catalogue, policy, by_chance=by_chance)
        found += _news(found, (*contradicting, *_more_than_held(planned, story)))
    return planned, found


def _news(found: Sequence[Finding], more: Iterable[Finding]) -> list[Finding]:
    """An error of a repeated step counts once; a step with an error has no further ones."""
    return [one for one in dict.fromkeys(more) if not any(at[: len(one[0])] == one[0] for at, _ in found)]


def _is_by_chance(timeline: Timeline) -> bool:
    """Whether the seed has a say in which faults and taints there are, or when."""
    steps = [step for _, step in steps_of(timeline) if step.verb in ("inject", "flap", "taint")]
    wheres = [step.flap.device if step.flap else step.device for step in steps]
    drawn = [step for _, step in steps_of(timeline) if step.probability is not None or step.when is not None]
    return bool(drawn) or any(isinstance(where, Pick) for where in wheres)


def unknown(timeline: Timeline, unsure: Set[str] = frozenset()) -> Iterator[Finding]:
    """Names that nothing is called by. `unsure`: what of `use` nobody knows."""
    yield from _wrong(("use", "policy"), partial(faults.policy, timeline.use.policy))
    yield from (missing := [*_wrong(("use", "catalogue"), partial(faults.catalogue, timeline.use.catalogue))])
    for path, step in steps_of(timeline):
        for part, name in _named(step, "fault"):
            if not missing and "catalogue" not in unsure:
                yield from _wrong((*path, *part), partial(faults.fault, timeline.use.catalogue, name))
        for part, name in _named(step, "action"):
            if name != "all":  # which is rejected with the new name
                yield from _wrong((*path, *part), partial(faults.action, name))
        yield from _unused(path, step)
        yield from _odd_window(path, step)
        yield from _odd_offer(path, step)


def _named(step: Step, what: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The faults, or actions, that a step names, and where in it."""
    if step.flap and what == "fault":
        yield ("flap", "down"), step.flap.down
    if (known := STEPS.get(step.verb)) and known.argument(what):
        value = getattr(step, step.verb)
        yield (step.verb,), value if isinstance(value, str) else getattr(value, what)


_FIELDS = {
    "within": ("expect",),
    "holds": ("expect",),
    "device": (*(name for name, known in STEPS.items() if known.has_devices), "set", "plugin"),
    "for": (*(name for name, known in STEPS.items() if known.undo), "stream", "driver", "plugin", "pod", "kubelet"),
}
"""The verbs that read what a step says besides."""


def _unused(path: Place, step: Step) -> Iterator[Finding]:
    """What nobody would read."""
    for name, verbs in _FIELDS.items():
        if getattr(step, {"for": "for_"}.get(name, name)) is not None and step.verb not in verbs:
            inside = f"; set it inside {step.verb}" if step.verb in ("flap", "expect", "repeat") else ""
            yield (*path, name), f"`{name}` is not allowed with {step.verb}, only with {', '.join(verbs)}{inside}"
    if step.expect and step.expect.of == "plugin" and step.expect.message:
        yield (*path, "expect", "message"), 'a device plugin reports no message; remove `message`, or set it to ""'
    if step.device == HELD:
        yield (*path, "device"), f"only `expect` can have `device: {HELD}`; name the device"
    if step.when is not None and path[0] == ENDING:
        yield (*path, "when"), "a step of `always` cannot wait; remove `when`"
    if step.plugin is not None and not isinstance(step.plugin, str) and step.device is None:
        yield (*path, "plugin"), "the report of a device plugin needs a device; add `device`"
    if isinstance(step.plugin, str) and step.device is not None:
        yield (*path, "device"), f"{step.plugin} is for the whole device plugin; remove `device`"
    if step.set and step.device is None and step.set.model_fields_set - {"heartbeat"}:
        yield (*path, "set"), f"set needs `device` for {', '.join(sorted(step.set.model_fields_set - {'heartbeat'}))}"


def _not_there(timeline: Timeline, inventory: Inventory, unsure: Set[str]) -> Iterator[Finding]:
    """Unknown devices and pods. `unsure` as above."""
    use = timeline.use.workload
    if (use.devices or 0) > len(inventory.leaves):
        yield ("use", "workload", "devices"), f"devices must be at most {len(inventory.leaves)}, got {use.devices}"
    for path, step in steps_of(timeline):
        if step.pod == "deleted" and use.kind == "Pod" and "workload" not in unsure:
            yield (
                (*path, "pod"),
                "`pod: deleted` needs a workload that replaces the pod; add `workload: {kind: ReplicaSet}` to `use`",
            )
        for place, where in _devices_of(step):
            pattern = where.from_ if isinstance(where, Pick) else where
            if pattern not in (None, HELD):
                try:
                    inventory.matching(pattern)
                except ValueError as error:
                    yield (*path, *place), str(error)


def _devices_of(step: Step) -> Iterator[tuple[tuple[str, ...], str | Pick | None]]:
    """What names devices in a step, and where in it."""
    yield ("device",), step.device
    if step.when:
        yield ("when", "device"), step.when.device
    if step.flap:
        yield ("flap", "device"), step.flap.device
    if step.expect:
        yield ("expect", "device"), step.expect.device


def _more_than_held(planned: Plan, timeline: Timeline) -> Iterator[Finding]:
    """What a pod that holds some of the devices can never show."""
    held, at_once = timeline.use.workload.devices, defaultdict[tuple[Place, float], set[str]](set)
    for one in (*planned.actions, *planned.always) if held else ():
        if one.verb == "expect":
            at_once[one.place, one.at].add(one.device)
    for (place, _), devices in at_once.items():
        if held and len(devices) > held:
            yield place, f"the pod holds {held} of these {len(devices)} devices; expect its device by name, or `{HELD}`"


def _odd_window(path: Place, step: Step) -> Iterator[Finding]:
    if step.within is not None and step.within not in WINDOWS:
        try:
            Duration.parse(step.within)
        except ValueError:
            yield (
                (*path, "within"),
                f"within must be {', '.join(WINDOWS)} or a duration such as 3s, got {step.within!r}",
            )


def _odd_offer(path: Place, step: Step) -> Iterator[Finding]:
    life = step.driver if isinstance(step.driver, OneOf) else None
    offer: Sequence[str] = (getattr(getattr(life, life.verb), "offer", None) or ()) if life else ()
    for number, name in enumerate(offer):
        if life and full_name(name) not in HEALTH_APIS:
            where = (*path, "driver", life.verb, "offer", number)
            yield where, f"unknown health API {name!r}; valid: {', '.join(HEALTH_APIS)}"


def steps_of(timeline: Timeline) -> Iterator[tuple[Place, Step]]:
    """Every step, those inside others too, with its place."""
    yield from _inside(("timeline",), timeline.timeline)
    yield from _inside(("always",), timeline.always)


def _inside(path: Place, steps: Sequence[Step]) -> Iterator[tuple[Place, Step]]:
    for number, step in enumerate(steps):
        here = (*path, number)
        yield here, step
        if step.repeat:
            yield from _inside((*here, "repeat", "do"), step.repeat.do)
        for branch, inner in enumerate(step.parallel or ()):
            yield from _inside((*here, "parallel", branch), inner)


def _wrong(path: Place, look: Callable[[], object]) -> Iterator[Finding]:
    try:
        look()
    except UnknownName as error:
        yield path, str(error)
