"""Whether a timeline makes sense for these devices: names are known, and its plan does not contradict itself. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import grpc

from drahealth.fakes.faults import catalogue as faults
from drahealth.fakes.faults.catalogue import UnknownName
from drahealth.fakes.inventory import Inventory
from drahealth.fakes.timelines.durations import Duration
from drahealth.fakes.timelines.load import Loaded
from drahealth.fakes.timelines.model import Step, Timeline
from drahealth.fakes.timelines.plan import Action, Plan, PlanError, plan
from drahealth.fakes.user_files import Place
from drahealth.proto.flavours import FLAVOURS

WINDOWS = ("push", "resync", "start", "restart")
"""What `within` may name."""

EVERYTHING = "all"
"""What `recover` may say instead of an action: all is well again, at once."""


def checked_plan(loaded: Loaded, inventory: Inventory, seed: int | None = None) -> Plan:
    """The plan of a timeline that makes sense. Raises FileError with all that is wrong, by line."""
    found = [*_unknown(loaded.timeline)]
    if not found:
        try:
            planned = plan(loaded.timeline, inventory, seed)
        except PlanError as error:
            found.append((error.path, str(error)))
        else:
            found += contradictions(planned.actions)
    if found:
        raise loaded.document.error(found)
    return planned


Finding = tuple[Place, str]


def _unknown(timeline: Timeline) -> Iterator[Finding]:
    """Names that nothing is called by."""
    yield from _wrong(("use", "policy"), partial(faults.policy, timeline.use.policy))
    yield from (missing := [*_wrong(("use", "catalogue"), partial(faults.catalogue, timeline.use.catalogue))])
    for path, step in _steps(timeline):
        for part, name in (("inject",), step.inject), (("flap", "down"), step.flap and step.flap.down):
            if name and not missing:
                yield from _wrong((*path, *part), partial(faults.fault, timeline.use.catalogue, name))
        if step.recover not in (None, EVERYTHING):
            action = step.recover if isinstance(step.recover, str) else step.recover.action
            yield from _wrong((*path, "recover"), partial(faults.action, action))
        if step.stream and step.stream.close and step.stream.close not in grpc.StatusCode.__members__:
            codes = ", ".join(grpc.StatusCode.__members__)
            yield (*path, "stream", "close"), f"no gRPC status code is called {step.stream.close!r}; there are {codes}"
        yield from _odd_window(path, step)
        yield from _odd_offer(path, step)


def _odd_window(path: Place, step: Step) -> Iterator[Finding]:
    for name in ("within", "holds"):
        if getattr(step, name) is not None and step.verb != "expect":
            yield (*path, name), f"{name} belongs to expect, and this step has {step.verb}"
    if step.within is not None and step.within not in WINDOWS:
        try:
            Duration.parse(step.within)
        except ValueError:
            yield (*path, "within"), f"{step.within!r} is no window ({', '.join(WINDOWS)}) and no duration (3s)"


def _odd_offer(path: Place, step: Step) -> Iterator[Finding]:
    start = step.driver if step.driver is not None and not isinstance(step.driver, str) else None
    offer = start and (start.restart or start.upgrade)
    for number, name in enumerate((offer and offer.offer) or ()):
        if full_name(name) not in FLAVOURS:
            verb = "restart" if start and start.restart else "upgrade"
            where = (*path, "driver", verb, "offer", number)
            yield where, f"no health API is called {name!r}; there are {', '.join(FLAVOURS)}"


def full_name(api: str) -> str:
    """The health API that `v1` or `v1alpha1` stands for."""
    return f"{api}.DRAResourceHealth" if "." not in api and "/" not in api else api


def contradictions(actions: Iterable[Action]) -> Iterator[Finding]:
    """What cannot be so: a fault that is there, a driver that ends twice, expectations that exclude each other."""
    has: dict[str, set[str]] = {}
    runs = True
    expected: dict[str, tuple[float, Action]] = {}
    for action in actions:
        if action.trigger:
            continue  # nobody knows when
        path = _path(action)
        if action.verb not in ("expect", "mark"):  # things change, and what was expected of this moment is past
            expected = {device: (until, old) for device, (until, old) in expected.items() if until > action.at}
        match action.verb:
            case "inject":
                if action.what in has.setdefault(action.device, set()):
                    yield path, f"{action.device} has {action.what} already at {action.at:g} s"
                has[action.device].add(action.what)
            case "clear":
                has.get(action.device, set()).discard(action.what)
            case "recover":
                for faults_ in [has[action.device]] if action.device in has else has.values():
                    faults_.clear()
            case "driver":
                down = action.what in ("crash", "stop")
                if not runs and action.what not in ("running", "restart"):
                    yield path, f"the driver does not run at {action.at:g} s, so it cannot {_word(action.what)}"
                runs = not down
                if not isinstance(action.what, str) or action.what == "upgrade":
                    has.clear()  # another instance, which knows of no faults
            case "expect":
                yield from _excluded(action, expected)


def _excluded(action: Action, expected: dict[str, tuple[float, Action]]) -> Iterator[Finding]:
    health = action.what.get("health")
    until, before = expected.get(action.device, (-1.0, action))
    if health and before.what.get("health") not in (None, health) and action.at <= until:
        what = f"{action.device} is to be {health} at {action.at:g} s, and {before.what['health']} by {before.step}"
        yield _path(action), what
    if health and action.at + action.what.get("holds", 0.0) >= until:
        expected[action.device] = (action.at + action.what.get("holds", 0.0), action)


def _word(what: object) -> str:
    return next(iter(what)) if isinstance(what, Mapping) else str(what)


def _path(action: Action) -> Place:
    return tuple(int(part) if part.isdigit() else part for part in action.step.split("."))


def _steps(timeline: Timeline) -> Iterator[tuple[Place, Step]]:
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
