"""What `drahealth observe` judges: the rules, and the verdict of each on one node. Pure.

A rule that needs a situation that did not occur, such as an unhealthy device, is NOT_APPLICABLE; one for which the time
was too short is NOT_TESTED.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from drahealth.manager.releases import for_release
from drahealth.proto.quoting import one_line
from drahealth.proto.values import DEFAULT_TIMEOUT, DeviceId, Health, ResourceHealth
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    Verdict,
    failed,
    not_applicable,
    not_tested,
    passed,
    verdict_of,
)
from drahealth.suites.judging.ledger import known_issues
from drahealth.suites.observing.facts import NodeFacts, PodFact, SliceFact, moments

SETTLE = 10.0
"""Seconds for a status, slice or taint to follow its cause: the kubelet and the driver both write over the API."""
KNOWN = float(DEFAULT_TIMEOUT)
"""Seconds until the health of a device must be known: the default timeout of the kubelet (KEP-4680, Notes)."""
RESYNC = 90.0
"""Seconds until a kubelet at the latest writes the status of a Pod again, and shows that a report is too old (B-03)."""
REFRESHED = KNOWN + RESYNC + 5.0
"""Seconds that a device must be watched, so that a driver without heartbeat shows on each kubelet."""
CHANGES = 6
"""Changes of one device, or of one pool, in a minute that are not churn."""
_MINUTE = 60.0
_RANDOM_ORDER = "B-01"
_SHOWN = 3
"""Examples in a sentence."""

_KEP = "KEP-4680 (kubernetes/enhancements, keps/sig-node/4680-add-resource-health-to-pod-status)"
_KEP_LINK = (
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4680-add-resource-health-to-pod-status"
)
_SLICE = "ResourceSlice v1 (k8s.io/api resource/v1)"
_SLICE_LINK = "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-slice-v1/"
_CONTENT = tuple[str, str, str]
"""Container, entry and resourceID of a device in a status."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of observation."""

    id: str
    level: Literal["MUST", "SHOULD"]
    family: str
    sentence: str
    source: str
    link: str
    judge: Callable[[NodeFacts, float], Finding]


H = TypeVar("H", bound=Hashable)


def lasting(states: Iterable[tuple[float, Iterable[H]]], end: float, limit: float) -> Iterator[tuple[H, float, float]]:
    """The problems that last at least so many seconds, each with the time when it began, and its duration.

    `states` are the problems from a time on, in the order of time.
    """
    since: dict[H, float] = {}
    for at, found in states:
        now = set(found)
        for problem in [one for one in since if one not in now]:
            if (seconds := at - since.pop(problem)) >= limit:
                yield problem, at - seconds, seconds
        for problem in now:
            since.setdefault(problem, at)
    yield from ((one, at, end - at) for one, at in since.items() if end - at >= limit)


def most_in_a_minute(times: Sequence[float]) -> int:
    """The most of these times, which are sorted, that are in one minute."""
    return max((bisect_left(times, at + _MINUTE) - number for number, at in enumerate(times)), default=0)


def _some(problems: Iterable[str]) -> str:
    found = list(dict.fromkeys(problems))
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _by_pod(facts: NodeFacts) -> dict[str, list[PodFact]]:
    pods: dict[str, list[PodFact]] = {}
    for one in facts.pods:
        pods.setdefault(one.uid, []).append(one)
    return pods


def _end_of(facts: NodeFacts, uid: str, end: float) -> float:
    return min(end, facts.gone.get(uid, end), facts.lost[0] if facts.lost else end)


def _running(pod: PodFact) -> set[str]:
    """The containers that run."""
    return {one.name for one in pod.status.all_containers if one.state == "running"}


def _content(pod: PodFact) -> Iterator[tuple[_CONTENT, ResourceHealth]]:
    """What the status shows of the devices of the driver."""
    for container, entries in pod.status.entries():
        for entry in entries:
            if _held(pod, container, entry.name):
                yield from (((container, entry.name, one.resource_id), one) for one in entry.resources)


def _held(pod: PodFact, container: str, entry: str) -> tuple[DeviceId, ...]:
    """The devices that an entry is for."""
    return tuple(device for use in pod.uses if use.container == container for device in use.of_entry(entry))


def _has_issue(facts: NodeFacts, issue: str) -> bool:
    """Whether the release of the kubelet is known to have this issue."""
    version = facts.kubelet.removeprefix("v").partition("-")[0].partition("+")[0]
    profile = for_release(version) if version else None
    return profile is not None and any(one.id == issue for one in known_issues(profile.name))


# Entries.


def _missing(pod: PodFact) -> Iterator[str]:
    shown, regular = dict(pod.status.entries()), {one.name for one in pod.status.containers}
    for use in pod.uses:
        if use.container not in _running(pod) & regular:  # kubelets show nothing for init containers (B-26)
            continue
        where = f"container {use.container} of Pod {pod.name}"
        entries = [entry for entry in shown.get(use.container, ()) if use.of_entry(entry.name)]
        if {device for entry in entries for device in use.of_entry(entry.name)} != set(use.devices):
            yield f"{where} has no entry {use.name}"
        yield from (f"{where} has the entry {entry.name} without a device" for entry in entries if not entry.resources)


def _entries(facts: NodeFacts, end: float) -> Finding:
    problems, judged = [], 0
    for uid, pod in _by_pod(facts).items():
        last = _end_of(facts, uid, end)
        judged += any(last - one.at >= SETTLE and {use.container for use in one.uses} & _running(one) for one in pod)
        problems += [
            f"{what} for {s:.0f} s" for what, _, s in lasting([(p.at, _missing(p)) for p in pod], last, SETTLE)
        ]
    if not judged:
        return _no_pod(facts)
    if not any(True for pod in facts.pods for _ in _content(pod)):
        return not_tested(
            "no Pod on the node shows a device: the feature gate ResourceHealthStatus of the kubelet is off, as it is "
            "by default before 1.36, or the kubelet does not know the health API of the driver"
        )
    if problems:
        return failed("an entry for each claim with devices of the driver", _some(problems))
    return passed(f"{judged} Pods show an entry for each claim")


def _no_pod(facts: NodeFacts) -> Finding:
    return not_tested(facts.own_problem or "no Pod with devices of the driver ran long enough on the node")


def _order(facts: NodeFacts, end: float) -> Finding:
    if _has_issue(facts, _RANDOM_ORDER):
        return not_applicable(f"kubelet {facts.kubelet} shows entries in random order ({_RANDOM_ORDER})")
    problems, compared = [], 0
    for pod in _by_pod(facts).values():
        for before, after in pairwise(pod):
            one, other = ([key for key, _ in _content(fact)] for fact in (before, after))
            both = set(one) & set(other)
            compared += bool(both)
            if [key for key in one if key in both] != [key for key in other if key in both]:
                problems.append(f"Pod {after.name} changed the order of its devices after {after.at:.0f} s")
    if problems:
        return failed("entries and devices in the same order in each status", _some(problems))
    if compared:
        return passed(f"the order is the same in {compared} new statuses")
    return not_applicable("no status changed")


def _ids(facts: NodeFacts, end: float) -> Finding:
    problems: list[str] = []
    ids = {key[2] for pod in facts.pods for key, _ in _content(pod)}
    for pod in facts.pods:
        for (container, entry, name), _ in _content(pod):
            mine = list(map(str, _held(pod, container, entry)))
            if not is_cdi_id(name) and name not in mine:
                problems.append(f"Pod {pod.name} shows {name} in {entry}, whose devices are {', '.join(sorted(mine))}")
    last = facts.lost[0] if facts.lost else end
    states = ((at, _unpublished(pods, pools)) for at, pods, pools in moments(facts, last))
    problems += [f"{what} for {s:.0f} s" for what, _, s in lasting(states, last, SETTLE)]
    if problems:
        return failed("only devices that the driver publishes and the claim has", _some(problems))
    if not ids:
        return _no_pod(facts)
    devices = len({device for pod in facts.pods for device in pod.devices()})
    return passed(f"{devices} devices in use are published")


def is_cdi_id(name: str) -> bool:
    """Whether a resourceID is a CDI id, such as `example.com/gpu=0`, and not `driver/pool/device`."""
    return "=" in name


def _unpublished(pods: Iterable[PodFact], pools: Mapping[str, Sequence[SliceFact]]) -> Iterator[str]:
    known = {(pool, device) for pool, slices in pools.items() for one in slices for device in one.taints}
    for pod in pods:
        for device in sorted(pod.devices()):
            if (device.pool, device.device) not in known:
                yield f"{device}, which Pod {pod.name} uses, is not published"


# Health.


def _healths(facts: NodeFacts, end: float) -> Iterator[tuple[str, list[tuple[float, ResourceHealth | None]], float]]:
    """Each device in the status of a Pod, in words, what it shows from a time on, and the end of its Pod."""
    for uid, pod in _by_pod(facts).items():
        contents = [(one.at, dict(_content(one))) for one in pod]
        for key in dict.fromkeys(key for _, content in contents for key in content):
            states: list[tuple[float, ResourceHealth | None]] = []
            for at, content in contents:
                shown = content.get(key)
                if not states or states[-1][1] != shown:
                    states.append((at, shown))
            yield f"{key[2]} in Pod {pod[0].name}", states, _end_of(facts, uid, end)


def _known(facts: NodeFacts, end: float) -> Finding:
    problems, longest, judged = [], 0.0, 0
    for name, states, last in _healths(facts, end):
        first = next((at for at, shown in states if shown), last)
        longest, judged = max(longest, last - first), judged + 1
        was_known = False
        for (at, shown), until in zip(states, [*(at for at, _ in states[1:]), last], strict=True):
            if shown is None:
                continue
            if shown.health is not Health.UNKNOWN:
                was_known = True
            elif was_known and not shown.message and until - at >= SETTLE:
                problems.append(f"{name} became Unknown after {at:.0f} s: the driver did not report it in time")
            elif not was_known and until - at >= KNOWN:
                said = f" with the message {one_line(shown.message, 60)!r}" if shown.message else ""
                problems.append(f"{name} was Unknown for {until - at:.0f} s{said}")
    if problems:
        return failed("a known health, which the driver refreshes before its timeout", _some(problems))
    if not judged:
        return _no_pod(facts)
    if longest < REFRESHED:
        return not_tested(
            f"no device was watched for {REFRESHED:g} s: until then a kubelet can show a report that is too old"
        )
    return passed(f"the health of {judged} devices stayed known for up to {longest:.0f} s")


def _calm(facts: NodeFacts, end: float) -> Finding:
    problems, judged = [], 0
    for name, states, _ in _healths(facts, end):
        judged += 1
        times = [at for at, shown in states[1:] if shown]
        if (most := most_in_a_minute(times)) > CHANGES:
            problems.append(f"{name} changed {most} times in a minute")
    if problems:
        return failed(f"at most {CHANGES} changes of a device in a minute", _some(problems))
    return (
        passed(f"no device of {judged} changed more often than {CHANGES} times a minute") if judged else _no_pod(facts)
    )


# ResourceSlices.


def _pools(facts: NodeFacts) -> dict[str, list[SliceFact]]:
    pools: dict[str, list[SliceFact]] = {}
    for one in facts.slices:
        pools.setdefault(one.pool, []).append(one)
    return pools


def _complete(facts: NodeFacts, end: float) -> Finding:
    last = facts.lost[0] if facts.lost else end
    states = ((at, _incomplete(pools)) for at, _, pools in moments(facts, last))
    if problems := [f"{what} for {s:.0f} s" for what, _, s in lasting(states, last, SETTLE)]:
        return failed("a pool with all slices of its newest generation", _some(problems))
    return passed(f"{len(_pools(facts))} pools are complete")


def _incomplete(pools: Mapping[str, Sequence[SliceFact]]) -> Iterator[str]:
    """A driver can remove a pool, but not all: then the node has no devices."""
    if not pools:
        yield "the driver publishes no device of the node"
    for pool, slices in pools.items():
        if len(slices) != slices[0].count:
            yield f"pool {pool} has {len(slices)} of {slices[0].count} slices"


def _churn(facts: NodeFacts, end: float) -> Finding:
    problems = []
    for pool, slices in _pools(facts).items():
        writes: list[float] = []
        before: dict[str, tuple[str, bool]] = {}
        for one in slices:
            if before.get(one.name) == (one.content, one.gone):
                writes.append(one.at)
            before[one.name] = (one.content, one.gone)
        if (most := most_in_a_minute(writes)) > CHANGES:
            problems.append(f"slices of pool {pool} were written {most} times in a minute with the same devices")
        generations = sorted({one.generation: one.at for one in reversed(slices)}.items())
        if (most := most_in_a_minute(sorted(at for _, at in generations[1:]))) > CHANGES:
            problems.append(f"pool {pool} had {most} new generations in a minute")
    if problems:
        return failed(f"at most {CHANGES} such changes of a pool in a minute", _some(problems))
    return passed("pools changed seldom")


def _taints(facts: NodeFacts, end: float) -> Finding:
    """Compares the health in the statuses of Pods with the taints in slices, from both sides."""
    last = facts.lost[0] if facts.lost else end
    states = ((at, _untainted(pods, pools)) for at, pods, pools in moments(facts, last))
    if problems := [f"{what} for {s:.0f} s" for what, _, s in lasting(states, last, SETTLE)]:
        return failed("a taint on each unhealthy device in use, and on no healthy one", _some(problems))
    unhealthy = any(shown.health is Health.UNHEALTHY for pod in facts.pods for _, shown in _content(pod))
    tainted = any(taints for one in facts.slices for taints in one.taints.values())
    if not unhealthy and not tainted:
        return not_applicable("no device was unhealthy or had a taint")
    return passed("taints and health agree")


def _untainted(pods: Iterable[PodFact], pools: Mapping[str, Sequence[SliceFact]]) -> Iterator[str]:
    taints = {
        (pool, device): found
        for pool, slices in pools.items()
        for one in slices
        for device, found in one.taints.items()
    }
    for device, healths in _healths_of_devices(pods).items():
        found = taints.get((device.pool, device.device))
        if found is None:
            continue
        if Health.UNHEALTHY in healths and not found:
            yield f"{device} is Unhealthy and has no taint"
        blocking = [one for one in found if one.effect in ("NoSchedule", "NoExecute")]
        if healths == {Health.HEALTHY} and blocking:
            yield f"{device} is Healthy and has the taint {blocking[0]}"


def _healths_of_devices(pods: Iterable[PodFact]) -> dict[DeviceId, set[Health]]:
    """What all Pods show of each device. A CDI id names no device: it is used if the entry can have only one."""
    found: dict[DeviceId, set[Health]] = {}
    for pod in pods:
        for (container, entry, name), shown in _content(pod):
            mine = _held(pod, container, entry)
            for device in [one for one in mine if str(one) == name] or (mine if len(mine) == 1 else ()):
                found.setdefault(device, set()).add(shown.health)
    return found


# Pods of the observer, and Events.


def _starts(facts: NodeFacts, end: float) -> Finding:
    if problems := [f"{one.about}: {one.reason}: {one_line(one.message, 200)}" for one in facts.events]:
        return failed("no Warning about devices of the driver", _some(problems))
    if facts.own_problem:
        return not_tested(facts.own_problem)
    return passed("no Warning about devices, and the Pod of the observer ran")


RULES = (
    Rule(
        "OBSERVE-01",
        "MUST",
        "Pod status",
        "Each running container that uses a claim with devices of the driver has an entry for it.",
        _KEP,
        _KEP_LINK,
        _entries,
    ),
    Rule(
        "OBSERVE-02",
        "MUST",
        "Pod status",
        "A new status has the entries and the devices of the last one in the same order.",
        _KEP,
        _KEP_LINK,
        _order,
    ),
    Rule(
        "OBSERVE-03",
        "MUST",
        "health",
        "The health of each device in use is known within 30 s, and stays known: the driver reports it again in time.",
        f"{_KEP}, Notes: the kubelet shows Unknown after the timeout of a report, by default 30 s",
        _KEP_LINK,
        _known,
    ),
    Rule(
        "OBSERVE-04",
        "MUST",
        "ResourceSlices",
        "The status names only devices of the claim, and the driver publishes each device that is in use.",
        f"{_SLICE}, Device; {_KEP}",
        _SLICE_LINK,
        _ids,
    ),
    Rule(
        "OBSERVE-05",
        "SHOULD",
        "Pod status",
        "A device changes its health or its message at most 6 times a minute: each change is a write of a Pod status.",
        f"{_KEP}, Risks and Mitigations",
        _KEP_LINK,
        _calm,
    ),
    Rule(
        "OBSERVE-06",
        "SHOULD",
        "ResourceSlices",
        "The driver does not write slices again without a change, and seldom makes a new generation of a pool.",
        f"{_SLICE}, ResourcePool.generation",
        _SLICE_LINK,
        _churn,
    ),
    Rule(
        "OBSERVE-07",
        "MUST",
        "ResourceSlices",
        "Each pool of the node has all slices of its newest generation: the scheduler does not use other pools.",
        f"{_SLICE}, ResourcePool.resourceSliceCount",
        _SLICE_LINK,
        _complete,
    ),
    Rule(
        "OBSERVE-08",
        "SHOULD",
        "ResourceSlices",
        "A device that a Pod shows as Unhealthy has a taint, and a Healthy one has none that blocks Pods.",
        "KEP-5055 (device taints and tolerations); ResourceSlice v1, DeviceTaint",
        _SLICE_LINK,
        _taints,
    ),
    Rule(
        "OBSERVE-09",
        "MUST",
        "Pods",
        "A Pod with a claim for one device runs, and the kubelet prepares the devices of all Pods.",
        "Kubernetes documentation, Dynamic Resource Allocation",
        "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
        _starts,
    ),
)
"""All rules, in the order of reports."""


def judged(facts: NodeFacts, end: float) -> dict[str, Finding]:
    """The finding of each rule on a node, by its ID. A rule that a lost node may have hidden is not tested."""
    found = {}
    for rule in RULES:
        finding = rule.judge(facts, end)
        if facts.lost and finding.verdict is not Verdict.FAIL:
            finding = not_tested(f"after {facts.lost[0]:.0f} s: {facts.lost[1]}")
        found[rule.id] = finding
    return found


def node_verdict(findings: dict[str, Finding]) -> Verdict:
    """The verdict on a node: the worst of its MUSTs."""
    return verdict_of(findings[rule.id].verdict for rule in RULES if rule.level == "MUST")


def unseen(facts: NodeFacts) -> list[str]:
    """What an observer could not see on the node, one sentence each."""
    found = []
    if any(is_cdi_id(key[2]) for pod in facts.pods for key, _ in _content(pod)):
        found.append("a resourceID that is a CDI id cannot be compared with the published devices")
    if facts.own_problem:
        found.append(facts.own_problem)
    if not any(shown.health is Health.UNHEALTHY for pod in facts.pods for _, shown in _content(pod)):
        found.append("no device became Unhealthy, so it is open whether the driver reports failures")
    return found
