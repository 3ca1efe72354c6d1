"""Checks of two instances of a driver, of which the newer one replaces the older one."""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from drahealth.proto.events import (
    CdiSpecsRead,
    FaultCleared,
    GrpcCall,
    ProcessExited,
    ProcessStarted,
    RegistrationFailed,
    SignalSent,
    SlicesListed,
    SocketsListed,
)
from drahealth.suites.driver_checks.cdi_specs import defined_in, files_text
from drahealth.suites.driver_checks.check import check, health_check
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.faults_checks import judged_step
from drahealth.suites.driver_checks.observed import (
    Device,
    claim_calls,
    devices_of,
    get_info,
    is_served,
    named,
    notified,
    outcome,
    published,
    steps,
    text,
)
from drahealth.suites.driver_checks.observed_health import (
    OWN_DELAY,
    Stream,
    arrivals,
    began,
    episodes,
    listed,
    timeout_of,
)
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import Finding, Verdict, failed, not_tested, passed

_NAME = "rolling-update"


@dataclass(frozen=True, slots=True)
class _Update:
    """The registrations of both instances, and the end of the older one."""

    older: Observation[GrpcCall]
    newer: Observation[GrpcCall]
    asked_to_end: Observation[SignalSent] | None
    ended: Observation[ProcessExited] | None

    @property
    def end(self) -> float:
        """When the older instance had to end; infinity if it was not asked to."""
        return self.asked_to_end.at if self.asked_to_end else float("inf")


def _update(evidence: Evidence) -> _Update | Finding:
    """What happened, or why the second instance was not registered."""
    starts = list(evidence.of(ProcessStarted, _NAME))
    infos = [one for one in get_info(evidence, _NAME) if one.what.code == "OK"]
    if len(starts) < 2 or not infos:
        return not_tested("no second instance was started")
    pids = [one.what.pid for one in starts[:2]]
    exits = {one.what.pid: one for one in evidence.of(ProcessExited, _NAME)}
    signals = [one for one in evidence.of(SignalSent, _NAME) if one.what.signal == "SIGTERM"]
    asked = signals[0] if signals else None
    newer = next((one for one in infos if one.number > starts[1].number), None)
    if newer is None:
        return _not_registered(evidence, starts[1].number, exits.get(pids[1]))
    return _Update(infos[0], newer, asked, exits.get(pids[0]))


def _not_registered(evidence: Evidence, start: int, ended: Observation[ProcessExited] | None) -> Finding:
    """Why the second instance was not registered."""
    expected = "a second instance can be registered while the first one runs"
    if ended:
        return failed(expected, f"the second instance ended: {exit_text(ended.what)}", start, ended.number)
    problem = next((one for one in evidence.of(RegistrationFailed, _NAME) if one.number > start), None)
    if problem:
        return failed(expected, problem.what.problem, start, problem.number)
    return not_tested("the second instance was not registered", start)


@check(
    "PLUGIN-27",
    _NAME,
    fix="Put the UID of the Pod into the names of the registration socket and the plugin socket. Let each instance "
    "remove only its own sockets. In Go, use the option RollingUpdate of kubeletplugin.",
)
def two_instances_serve_side_by_side(evidence: Evidence) -> Finding:
    """The second instance registers at another socket; the first one answers until it gets SIGTERM, and then exits."""
    found = _update(evidence)
    if isinstance(found, Finding):
        return found
    older, newer = found.older, found.newer
    both = (older.number, newer.number)
    for what, values in _must_differ(found):
        if values[0] == values[1]:
            return failed("different sockets for each instance", f"both instances have the {what} {values[0]}", *both)
    names = [text(one.what.response, "name") for one in (older, newer)]
    if names[0] != names[1]:
        return failed(f"the name {names[0]} in both instances", f"the second instance has {names[1]}", *both)
    answer = next((one for one in notified(evidence, _NAME) if one.number > newer.number), None)
    if answer and answer.what.code != "OK":
        return failed("the second instance accepts its registration", outcome(answer.what), *both, answer.number)
    expected = "the first instance serves until it gets SIGTERM"
    if found.ended and (found.asked_to_end is None or found.ended.number < found.asked_to_end.number):
        return failed(expected, exit_text(found.ended.what), *both, found.ended.number)
    calls = [one for one in evidence.of(GrpcCall, _NAME) if newer.number < one.number and one.at < found.end]
    endpoint = text(older.what.response, "endpoint")
    mine = [one for one in calls if one.what.endpoint == endpoint and "NodePrepare" in one.what.method]
    if refused := next((one for one in mine if not is_served(one.what)), None):
        return failed(expected, f"a call failed: {outcome(refused.what)}", *both, refused.number)
    if not mine or found.asked_to_end is None or found.ended is None:
        return not_tested("the first instance was not called, or not ended", *both)
    if any(
        one.what.signal == "SIGKILL" and one.number > found.asked_to_end.number for one in _signals(evidence, found)
    ):
        return failed("the first instance exits after SIGTERM", "it was killed", *both, found.asked_to_end.number)
    seen = f"both instances served; the first one exited {found.ended.at - found.end:.1f} s after SIGTERM"
    return passed(seen, *both, mine[0].number, found.ended.number)


def _must_differ(found: _Update) -> Iterator[tuple[str, tuple[str, str]]]:
    """What must be different in both instances."""
    older, newer = found.older.what, found.newer.what
    yield "registration socket", (older.endpoint, newer.endpoint)
    yield "endpoint", (text(older.response, "endpoint"), text(newer.response, "endpoint"))


def _signals(evidence: Evidence, found: _Update) -> Iterator[Observation[SignalSent]]:
    """The signals for the first instance: those before its exit."""
    last = found.ended.number if found.ended else 0
    return (one for one in evidence.of(SignalSent, _NAME) if one.number < last)


@check(
    "PLUGIN-28",
    _NAME,
    fix="Store the prepared claims in a file. Let both instances read this file at the start of each call.",
)
def newer_instance_has_the_claims(evidence: Evidence) -> Finding:
    """The second instance prepares a claim of the first one with the same answer, and unprepares it, after its end."""
    found = _update(evidence)
    if isinstance(found, Finding):
        return not_tested(found.seen, *found.records)
    records = []
    calls = {one.number for one in claim_calls(evidence, _NAME) if one.number > found.newer.number}
    for step in steps(evidence, _NAME):
        if step.number not in calls:
            continue
        if step.problem:
            expected = f"the second instance can {step.call.kind} the claim"
            return failed(expected, step.problem, found.newer.number, step.number)
        if step.call.kind == "prepare" and step.held is not None and set(step.held) != set(step.devices):
            first = named([one.device for one in step.held])
            seen = f"{named([one.device for one in step.devices])}; the first instance returned {first}"
            return failed("the same answer as from the first instance", seen, found.newer.number, step.number)
        records.append((step.call.ended, step.call.kind, step.number))
    if not any(at > found.end and kind == "unprepare" for at, kind, _ in records):
        return not_tested("no claim was unprepared after the end of the first instance", found.newer.number)
    return passed("claims were prepared and unprepared by the second instance", *(number for _, _, number in records))


@check(
    "PLUGIN-29",
    _NAME,
    fix="When an instance ends, remove only its own sockets. The newer instance needs the CDI specs and "
    "ResourceSlices.",
)
def older_instance_leaves_what_the_newer_one_needs(evidence: Evidence) -> Finding:
    """After the end of the first instance, the socket, CDI specs and ResourceSlices of the second one remain."""
    found = _update(evidence)
    if isinstance(found, Finding):
        return not_tested(found.seen, *found.records)
    sockets = next((one for one in evidence.of(SocketsListed, _NAME) if one.what.moment == "ended"), None)
    lists = list(evidence.of(SlicesListed, _NAME))
    if found.ended is None:
        return not_tested("the first instance did not end", found.newer.number)
    end = found.ended.number
    specs = next((one for one in evidence.of(CdiSpecsRead, _NAME) if one.number > end), None)
    if sockets and found.newer.what.endpoint not in sockets.what.registry:
        seen = f"registration sockets: {', '.join(sockets.what.registry) or 'none'}"
        return failed(f"registration socket {found.newer.what.endpoint}", seen, end, sockets.number)
    wanted = {
        name for step in steps(evidence, _NAME) if step.number < end for one in step.devices for name in one.cdi_ids
    }
    if specs and (missing := wanted - defined_in(specs.what)):
        return failed(f"{min(missing)} is defined in a CDI spec", files_text(specs.what), end, specs.number)
    before = [one for one in lists if one.number < end]
    after = [one for one in lists if one.number > end]
    if before and after and (gone := _published(before[-1]) - _published(after[-1])):
        return failed("all devices stay published", f"{named(gone)} are not", before[-1].number, end, after[-1].number)
    if sockets is None or specs is None or not before or not after:
        return not_tested("the sockets, CDI specs or ResourceSlices were not listed after the end", end)
    return passed(
        "the socket, CDI specs and ResourceSlices of the second instance remain",
        end,
        sockets.number,
        specs.number,
        after[-1].number,
    )


def _published(listed_: Observation[SlicesListed]) -> frozenset[Device]:
    return frozenset(device for one in listed_.what.slices for device in devices_of(one))


@health_check(
    "HEALTH-20",
    _NAME,
    fix="Let each instance determine the health of all devices itself. When an instance ends, it must not change the "
    "data that the other instance reads.",
)
def newer_instance_keeps_its_health(evidence: Evidence, found: list[Stream]) -> Finding:
    """Streams of the second instance start with all devices, show a fault, and go on unchanged after the end."""
    update = _update(evidence)
    if isinstance(update, Finding):
        return not_tested(update.seen, *update.records)
    found = [one for one in found if not one.api.prepared_only]
    known = frozenset(
        d for one in found if one.opened.number < update.newer.number for r in one.reports for d in listed(r)
    )
    mine = [one for one in found if one.opened.number > update.newer.number and (one.reports or one.cancelled)]
    if not known or not mine:
        return not_tested("one of the instances has no stream with a report", update.newer.number)
    for stream in mine:
        if problem := _start(stream, known) or _after_the_end(evidence, update, stream):
            return problem
    problems = list[Finding]()
    for episode in episodes(evidence, _NAME):
        shown = f"reported as {episode.broken.what.health} by the second instance"
        both = type(episode)(episode.broken, episode.changed, episode.healed, tuple(mine), episode.end)
        finding = judged_step(both, both.broken, both.shows_break, shown)
        problems += [] if finding.verdict is Verdict.PASS else [finding]
    compared = [one for one in mine if update.ended and one.opened.at <= update.end <= one.opened.at + one.open_seconds]
    if not compared:
        problems += [not_tested("no stream was open at the end of the first instance", update.newer.number)]
    always = published(evidence, _NAME).always
    problems += [problem for one in compared if update.ended and (problem := _silent(one, update.ended, always))]
    if problems:
        return min(problems, key=lambda one: one.verdict)
    seen = f"{len(compared)} streams of the second instance continued after the end of the first instance"
    return passed(seen, update.newer.number, *(one.reports[-1].number for one in compared))


def _start(stream: Stream, known: frozenset[Device]) -> Finding | None:
    """The violation in the first report of a stream of the second instance, if there is one."""
    expected = f"a first report within 5 s with {named(known)}"
    if not stream.reports:
        late = stream.first_is_late
        return failed(expected, f"{stream}: no report", stream.opened.number) if late else None
    first = stream.reports[0]
    if missing := known - listed(first):
        return failed(expected, f"{stream}: without {named(missing)}", stream.opened.number, first.number)
    if stream.first_is_late:
        took = first.at - stream.opened.at
        return failed(expected, f"{stream}: after {took:.1f} s", stream.opened.number, first.number)
    return None


def _after_the_end(evidence: Evidence, update: _Update, stream: Stream) -> Finding | None:
    """The violation in a stream that was open when the first instance ended, if there is one."""
    if update.asked_to_end is None or stream.opened.at > update.end:
        return None
    if stream.end and stream.ended_by_driver and stream.end.at > update.end:
        seen = f"{stream} ended: {stream.end.what.why}"
        return failed("the stream continues", seen, update.asked_to_end.number, stream.end.number)
    until = min((began(one) for one in evidence.of(FaultCleared, _NAME)), default=float("inf"))
    for device, times in arrivals(stream).items():
        before = [one for at, _, one in times if at < update.end][-1:]
        for at, number, one in times:
            if before and update.end <= at < until and one.health is not before[0].health:
                seen = f"{device} in {stream}: {one.health} after the end of the first instance"
                return failed(f"{device} stays {before[0].health}", seen, update.asked_to_end.number, number)
    return None


def _silent(stream: Stream, ended: Observation[ProcessExited], always: Set[Device]) -> Finding | None:
    """The violation of a stream that reports a device too late after the end, or what the evidence does not show."""
    if not stream.reports:
        return not_tested(f"{stream} had no report", stream.opened.number)
    end, unseen = stream.opened.at + stream.open_seconds, None
    for device, times in arrivals(stream).items():
        if always and device not in always:
            continue  # it came, went, or is not published
        for (at, number, one), stop in zip(times, [*(at for at, _, _ in times[1:]), end], strict=True):
            if stop > ended.at and stop - at > timeout_of(one) + OWN_DELAY:
                seen = f"{device} in {stream}: {stop - at:.1f} s without a report, timeout {timeout_of(one)} s"
                expected = "each stream reports each device again within its timeout, after the first instance ended"
                return failed(expected, seen, ended.number, number)
        if times[-1][0] <= ended.at:
            seen = f"{stream} ended before another report of {device}, and before its timeout"
            unseen = unseen or not_tested(seen, ended.number, times[-1][1])
    return unseen
