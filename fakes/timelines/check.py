"""Whether a timeline makes sense for these devices: names are known, and its plan does not contradict itself. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial

from drahealth.fakes.durations import Duration
from drahealth.fakes.faults import catalogue as faults
from drahealth.fakes.faults.catalogue import UnknownName
from drahealth.fakes.inventory.devices import Inventory
from drahealth.fakes.program.user_files import Finding, Place
from drahealth.fakes.timelines.command_steps import STEPS, OneOf
from drahealth.fakes.timelines.contradictions import contradictions
from drahealth.fakes.timelines.fields import Pick
from drahealth.fakes.timelines.load import Loaded
from drahealth.fakes.timelines.model import Step, Timeline
from drahealth.fakes.timelines.plan import ENDING, Plan, PlanError, plan
from drahealth.fakes.timelines.workload import HELD
from drahealth.proto.health_apis import HEALTH_APIS, full_name

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
    for action in (*planned.actions, *planned.always) if held else ():
        if action.verb == "expect":
            at_once[action.place, action.at].add(action.device)
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
