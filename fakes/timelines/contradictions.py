"""Whether a plan contradicts itself: what it does cannot be done then, or what it expects excludes itself. Pure.

What waits for a trigger is left out, for nobody knows when it comes; and where chance decides which faults there are,
nothing is said of recoveries that find none, nor of taints.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from drahealth.fakes.faults.catalogue import Fault, UnknownName, action, fault
from drahealth.fakes.files.user_files import Finding, Place
from drahealth.fakes.timelines.model import EVERYTHING
from drahealth.fakes.timelines.plan import Action


def contradictions(actions: Iterable[Action], catalogue: str, *, by_chance: bool = False) -> Iterator[Finding]:
    """What cannot be so, each with its place. `by_chance`: the faults and taints that there are depend on the seed."""
    story = _Story(catalogue, by_chance)
    for action_ in actions:
        if not action_.trigger:
            yield from ((action_.place, what) for what in story.next(action_))
    for (place, at), helped in story.helped.items():
        if not helped and not by_chance:
            yield place, f"there is nothing to recover from at {at:g} s: inject a fault before, or leave it out"


@dataclass
class _Story:
    """What there is at each moment of a plan."""

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
        if did.verb not in ("expect", "mark"):  # things change, and what was expected of this moment is past
            self.expected = {key: (until, old) for key, (until, old) in self.expected.items() if until > did.at}
        for faults in self.has.values():
            for name in [name for name, until in faults.items() if until <= did.at]:
                del faults[name]
        match did.verb:
            case "inject":
                yield from self._inject(did)
            case "clear":
                self.has.get(did.device, {}).pop(did.what, None)
            case "recover":
                yield from self._recover(did)
            case "driver" | "plugin" | "kubelet":
                yield from self._run(did)
            case "taint" | "untaint":
                yield from self._taint(did)
            case "pod":
                if not self.runs["kubelet"] and did.what != "running":
                    yield f"the kubelet does not run at {did.at:g} s, so nothing becomes of the pod"
                if self.fails and did.what == "keeps-failing":
                    yield f"the pod keeps failing already at {did.at:g} s"
                self.fails = did.what == "keeps-failing"
            case "stream" if not self.runs["driver"] and (odd := {"close", "send"} & did.what.keys()):
                yield f"the driver does not run at {did.at:g} s, so its streams cannot {odd.pop()}"
            case "expect":
                yield from self._expect(did)

    def _inject(self, did: Action) -> Iterator[str]:
        faults = self.has.setdefault(did.device, {})
        if did.what in faults:
            yield f"{did.device} has {did.what} already at {did.at:g} s"
        whole = did.device.partition("/")[0]
        for gone in {whole, did.device}:
            for name in self.has.get(gone, {}):
                if name != did.what and (known := self._known(name)) and known.vanishes:
                    yield f"{gone} is gone with {name} at {did.at:g} s, so nothing more can befall it; recover it first"
        faults[did.what] = float("inf")

    def _recover(self, did: Action) -> Iterator[str]:
        if did.what == EVERYTHING:
            self.has.clear()
            self.busy.clear()
            self.taints.clear()
            return
        said = {"action": did.what} if isinstance(did.what, str) else did.what
        concerned = [path for path in self.has if self.has[path] and _is_in(path, did.device)]
        self.helped[did.place, did.at] = self.helped.get((did.place, did.at), False) or bool(concerned)
        late = {path: until for path in concerned if (until := self.busy.get(path, 0.0)) > did.at}
        for path, until in late.items():
            yield f"{path} is being recovered until {until:g} s, so that cannot begin again at {did.at:g} s"
        takes = said.get("takes") or 0.0
        over = did.at + (takes if isinstance(takes, float) else 0.0)
        for path in concerned:
            self.busy[path] = over
            for name in self.has[path]:
                if not said.get("fails") and not said.get("claimed") and self._is_enough(said["action"], name):
                    self.has[path][name] = over

    def _run(self, did: Action) -> Iterator[str]:
        who, verb = did.verb, did.what if isinstance(did.what, str) else next(iter(did.what))
        if not self.runs[who] and verb not in ("running", "restart"):
            yield f"the {who} does not run at {did.at:g} s, so it cannot {verb}"
        if verb in ("running", "restart", "upgrade") and not self.runs["kubelet"] and who != "kubelet":
            yield f"the kubelet does not run at {did.at:g} s, so no {who} can register; start it before"
        if verb == "upgrade":
            if self.upgraded > did.at:
                yield f"two instances of the driver run until {self.upgraded:g} s, so there is no third at {did.at:g} s"
            self.upgraded = did.at + (1.0 if isinstance(did.what, str) else did.what[verb].get("overlap", 1.0))
        elif who == "driver" and verb in ("crash", "stop", "restart"):
            self.upgraded = 0.0  # which ends both
        if verb in ("crash", "stop", "running", "restart", "upgrade"):
            self.runs[who] = verb not in ("crash", "stop")

    def _taint(self, did: Action) -> Iterator[str]:
        there, key, effect = self.taints.setdefault(did.device, set()), did.what["key"], did.what.get("effect")
        if did.verb == "taint":
            there.add((key, effect or ""))
            return
        gone = {taint for taint in there if taint[0] == key and effect in (None, taint[1])}
        if not gone and not self.by_chance:
            yield f"{did.device} has no taint {key} at {did.at:g} s: leave untaint out, or taint it before"
        there -= gone

    def _expect(self, did: Action) -> Iterator[str]:
        health, key = did.what.get("health"), (did.device, did.what.get("of", ""))
        until, before = self.expected.get(key, (-1.0, did))
        if health and before.what.get("health") not in (None, health) and did.at <= until:
            yield f"{did.device} is to be {health} at {did.at:g} s, and {before.what['health']} by {before.step}"
        over = did.at + did.what.get("holds", 0.0)
        if health and over >= until:
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


def _is_in(path: str, device: str) -> bool:
    """Whether a recovery of the device is one of what this path names."""
    return not device or path == device or path.startswith(f"{device}/")
