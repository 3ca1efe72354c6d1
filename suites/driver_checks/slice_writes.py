"""What the driver writes into its ResourceSlices while devices break and recover. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from drahealth.proto.events import (
    ApiServerSwitched,
    BackendSwitched,
    ProcessStarted,
    SignalSent,
    SliceChanged,
    SlicesListed,
)
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.observed import (
    PUBLISH_LIMIT,
    at,
    driver_name,
    is_of,
    notified,
    sequence,
    slice_name,
    text,
)
from drahealth.suites.driver_checks.observed_health import began, fault_steps


@dataclass(frozen=True, slots=True)
class Write:
    """A write of a ResourceSlice that existed before."""

    record: Observation[SliceChanged]
    same: bool
    """Whether its content is the same as before, without the generation of the pool."""
    with_pool: bool
    """Whether it has a new generation, in which another ResourceSlice of the pool has another content."""
    for_taints: bool = False
    """Whether this generation changes only taints, and those of one ResourceSlice only."""


def all_writes(evidence: Evidence, experiments: Iterable[str]) -> list[Write]:
    """The writes of these experiments with faults that no event explains.

    Experiments on a real kubelet do not watch the ResourceSlices, so they have none.
    """
    return [write for name in experiments for write in _writes(evidence, name)]


def _writes(evidence: Evidence, experiment: str) -> Iterator[Write]:
    """The writes after the first fault, but not those of a driver that has just started again."""
    driver = driver_name(evidence)
    start = min((began(one) for one in fault_steps(evidence, experiment)), default=float("inf"))
    starts = [one.at for one in evidence.of(ProcessStarted, experiment) if one.at >= start]
    lists = list(evidence.of(SlicesListed, experiment))[:1]
    last = {slice_name(each): each for one in lists for each in one.what.slices}
    changed, renewed = set[tuple[str, int]](), dict[tuple[str, int], list[bool]]()
    found, explained = list[Write](), _explained(evidence, experiment)
    for one in evidence.of(SliceChanged, experiment):
        if not lists or not is_of(one.what.slice, driver) or one.number < lists[0].number:
            continue
        name, new, deleted = slice_name(one.what.slice), one.what.slice, one.what.change == "DELETED"
        before = last.pop(name, None)
        if not deleted:
            last[name] = new
        same = before is not None and _content(before) == _content(new)
        with_pool = before is None or _generation(before) != _generation(new)
        if deleted or not same:
            changed.add(_generation(new))
            only_taints = before is not None and not deleted and _untainted(before) == _untainted(new)
            if deleted or with_pool:
                renewed.setdefault(_generation(new), []).append(only_taints)
        starting = any(since <= one.at <= since + PUBLISH_LIMIT for since in starts)
        if deleted or before is None or one.at < start or starting or (same and explained(name, one.at)):
            continue
        found.append(Write(one, same, with_pool))
    for write in found:
        generation = _generation(write.record.what.slice)
        news = renewed.get(generation, [])
        yield replace(
            write, with_pool=write.with_pool and generation in changed, for_taints=len(news) <= 1 and all(news)
        )


def _explained(evidence: Evidence, experiment: str) -> Callable[[str, float], bool]:
    """Whether a write without a change has a reason. Each event explains one write of each ResourceSlice.

    A driver may publish once more when the API server, its backend or the process itself is back, and when it is
    registered again. These events count for all experiments on the process: the next one can follow at once.
    """
    process = EXPERIMENTS[experiment].process
    mine = [name for name, one in EXPERIMENTS.items() if one.process == process]
    times = sorted(
        [
            *(one.at for one in list(notified(evidence, *mine))[1:]),
            *(one.at for one in evidence.of(ApiServerSwitched, *mine) if one.what.reachable),
            *(one.at for one in evidence.of(BackendSwitched, *mine) if one.what.running),
            *(one.at for one in evidence.of(SignalSent, *mine) if one.what.signal == "SIGCONT"),
        ]
    )
    used = set[tuple[str, float]]()

    def explained(name: str, at: float) -> bool:
        since = next((one for one in times if one <= at <= one + PUBLISH_LIMIT and (name, one) not in used), None)
        used.update([(name, since)] if since is not None else [])
        return since is not None

    return explained


def are_complete(slices: list[Any]) -> bool:
    """Whether each pool has all ResourceSlices of its newest generation."""
    pools: dict[str, list[tuple[int, int]]] = {}
    for one in slices:
        numbers = (pool_number(one, "generation"), pool_number(one, "resourceSliceCount"))
        pools.setdefault(text(one, "spec", "pool", "name"), []).append(numbers)
    return all(sum(one[0] == max(found)[0] for one in found) >= max(found)[1] for found in pools.values())


def pool_number(found: Any, field: str) -> int:
    """A number of the pool of a ResourceSlice, by its field; 0 if it is not there."""
    value = at(found, "spec", "pool", field)
    return value if isinstance(value, int) else 0


def _generation(found: Any) -> tuple[str, int]:
    return text(found, "spec", "pool", "name"), pool_number(found, "generation")


def _content(found: Any) -> dict[str, Any]:
    """The spec without the generation of the pool, and without the times of the taints.

    TAINT-03 judges the times. The number changes with taints: a ResourceSlice with taints has at most 64 devices.
    """

    def timeless(taint: Any) -> Any:
        return {key: value for key, value in taint.items() if key != "timeAdded"} if isinstance(taint, dict) else taint

    return _with_taints(found, lambda taints: list(map(timeless, taints)))


def _untainted(found: Any) -> dict[str, Any]:
    """The same without taints."""
    return _with_taints(found, lambda _: [])


def _with_taints(found: Any, taints: Callable[[list[Any]], list[Any]]) -> dict[str, Any]:
    devices = [
        {**one, "taints": taints(sequence(one, "taints"))} if isinstance(one, dict) else one
        for one in sequence(found, "spec", "devices")
    ]
    spec = at(found, "spec")
    count = pool_number(found, "resourceSliceCount")
    return {**(spec if isinstance(spec, dict) else {}), "devices": devices, "pool": count}
