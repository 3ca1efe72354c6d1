"""Whether a plan contradicts itself: what it does cannot be done then, or what it expects excludes itself. Pure.

Steps with a trigger are left out: their times are unknown. If faults depend on the seed, recoveries without a fault and
taints are not checked. What devices show is checked only where the steps leave no doubt about it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from drahealth.fakes.control.commands.definition import Subject
from drahealth.fakes.control.commands.devices import Clear, Inject, Recover, Reset, TaintDevices, UntaintDevices
from drahealth.fakes.control.commands.life import Crash, Restart, RestartDevicePlugin, Start, Stop, Unregister, Upgrade
from drahealth.fakes.control.commands.plugin_devices import Remove, Restore, SetListedHealth
from drahealth.fakes.control.commands.reports import SetHealth
from drahealth.fakes.control.commands.streams import SetHeartbeat, StreamClose
from drahealth.fakes.faults.catalogue import Fault, Policy, UnknownName, action, fault
from drahealth.fakes.hardware.machine import Machine
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.program.user_files import Finding, Place
from drahealth.fakes.timelines.actions import Action, ChangeKubelet, ChangePod, Expect, Mark, Send
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.values import Health


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
        for faults in self.has.values():
            for name in [name for name, until in faults.items() if until <= did.at]:
                del faults[name]
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
