"""Checks of the lists and allocations of a device plugin."""

from collections import Counter
from collections.abc import Iterator

from drahealth.proto.events import (
    CdiSpecsRead,
    KubeletSwitched,
    ListReceived,
    ProcessExited,
    SocketRemoved,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.values import Health
from drahealth.suites.driver_checks.cdi_specs import defined_in, files_text, is_qualified
from drahealth.suites.driver_checks.check import resource_check
from drahealth.suites.driver_checks.device_plugins.observed import (
    FIRST_LIST_LIMIT,
    FIRST_LIST_WAIT,
    AllocateCall,
    ListStreamSeen,
    all_lists,
    allocations,
    ids,
    list_streams,
    registrations,
    without_healthy_device,
)
from drahealth.suites.driver_checks.evidence import Evidence, Observation
from drahealth.suites.driver_checks.experiments import EXPERIMENTS, UNKNOWN_DEVICE
from drahealth.suites.driver_checks.observed import cause_of_end, outcome
from drahealth.suites.driver_checks.output_text import exit_text
from drahealth.suites.driver_checks.verdicts import (
    Finding,
    Verdict,
    failed,
    not_applicable,
    not_tested,
    passed,
    static,
)

# Checks of Allocate.

_NAME = "allocation"
_READS = ("list-and-watch",)  # it has the devices


@resource_check(
    "DEVPLUGIN-11",
    _NAME,
    fix="Return one ContainerAllocateResponse for each ContainerAllocateRequest, in the order of the requests.",
    reads=_READS,
)
def each_container_has_its_response(evidence: Evidence) -> Finding:
    """Allocate of known devices succeeds, with one response for each container, in order."""
    found = _known(evidence)
    if not found:
        return _uncalled(evidence)
    done = set()
    for one in found:
        if one.containers in done:
            continue  # another requirement
        done.add(one.containers)
        if not one.succeeded:
            return failed("Allocate succeeds", outcome(one.call.what), one.number)
        if len(one.responses) != len(one.containers):
            seen = f"{len(one.responses)} responses for {len(one.containers)} containers"
            return failed("one response for each container", seen, one.number)
    for one in found:
        if len(one.containers) == 2 and (wrong := _swapped(one, found)):
            return failed("responses in the order of the requests", wrong, one.number)
    return passed(f"{len(found)} calls with one response for each container", *(one.number for one in found))


def _swapped(pair: AllocateCall, found: list[AllocateCall]) -> str:
    """What shows that the two responses are swapped; empty if they are not, or if nothing shows it."""
    alone = {one.containers[0]: one.responses[0] for one in found if len(one.containers) == 1 == len(one.responses)}
    first, second = (alone.get(devices) for devices in pair.containers)
    if first is None or second is None or first == second or list(pair.responses) != [second, first]:
        return ""
    return f"the first response is the response for {', '.join(pair.containers[1])}"


@resource_check(
    "DEVPLUGIN-12",
    _NAME,
    fix="Return device nodes, mounts, environment variables, annotations or CDI devices for the container.",
    reads=_READS,
)
def responses_give_access(evidence: Evidence) -> Finding:
    """No response for a container is empty."""
    found = [one for one in _known(evidence) if one.succeeded and one.responses]
    for one in found:
        for devices, response in zip(one.containers, one.responses, strict=False):
            if not any(response.values()):
                return failed("content in each response", f"an empty response for {', '.join(devices)}", one.number)
    if not found:
        return not_tested("Allocate did not succeed") if allocations(evidence, _NAME) else _uncalled(evidence)
    return passed(f"{len(found)} answers with content", *(one.number for one in found))


@resource_check(
    "DEVPLUGIN-13", _NAME, fix="Return an error, such as NOT_FOUND, for an ID that is not in the list.", reads=_READS
)
def unknown_device_is_refused(evidence: Evidence) -> Finding:
    """Allocate of an unknown device fails."""
    found = [one for one in allocations(evidence, _NAME) if (UNKNOWN_DEVICE,) in one.containers]
    for one in found:
        if one.succeeded:
            return failed("an error", f"Allocate of {UNKNOWN_DEVICE} succeeded", one.number)
    return passed(outcome(found[0].call.what), found[0].number) if found else _uncalled(evidence)


@resource_check(
    "DEVPLUGIN-14",
    _NAME,
    fix="Do not store allocated devices: a kubelet allocates a device again after its container has ended.",
    reads=_READS,
)
def device_can_be_allocated_again(evidence: Evidence) -> Finding:
    """The second Allocate of the same device succeeds."""
    pairs = list(_repeated(evidence))
    for before, again in pairs:
        if not again.succeeded:
            seen = f"the second Allocate failed: {outcome(again.call.what)}"
            return failed("Allocate succeeds again", seen, before.number, again.number)
    if not pairs:
        return not_tested("no device was allocated twice") if allocations(evidence, _NAME) else _uncalled(evidence)
    return passed("Allocate succeeded again", *(one.number for pair in pairs for one in pair))


@resource_check("DEVPLUGIN-15", _NAME, fix="Return a response that depends only on the devices.", reads=_READS)
def second_response_is_the_same(evidence: Evidence) -> Finding:
    """The second Allocate of the same devices has the same response."""
    pairs = [(before, again) for before, again in _repeated(evidence) if again.succeeded]
    for before, again in pairs:
        if before.responses != again.responses:
            return failed("the same response", "another response", before.number, again.number)
    if not pairs:
        return not_tested("no device was allocated twice") if allocations(evidence, _NAME) else _uncalled(evidence)
    return passed("the responses are equal", *(one.number for pair in pairs for one in pair))


def _uncalled(evidence: Evidence) -> Finding:
    """Not applicable without a healthy device; Allocate was not called."""
    if listed := without_healthy_device(evidence):
        return not_applicable("the plugin lists no healthy device", listed.number)
    return not_tested("Allocate was not called")


def _known(evidence: Evidence) -> list[AllocateCall]:
    """The calls for known devices."""
    return [one for one in allocations(evidence, _NAME) if one.containers and (UNKNOWN_DEVICE,) not in one.containers]


def _repeated(evidence: Evidence) -> Iterator[tuple[AllocateCall, AllocateCall]]:
    """Each call that repeats an earlier one that succeeded."""
    first: dict[tuple[tuple[str, ...], ...], AllocateCall] = {}
    for one in _known(evidence):
        if before := first.get(one.containers):
            yield before, one
        elif one.succeeded:
            first[one.containers] = one


# Checks of the CDI devices in the responses of Allocate.


def _with_names(evidence: Evidence) -> list[AllocateCall] | Finding:
    """The calls whose responses have CDI devices; a finding if there is none."""
    done = [one for one in allocations(evidence, _NAME) if one.succeeded]
    if not done and (listed := without_healthy_device(evidence)):
        return not_applicable("the plugin lists no healthy device", listed.number)
    if not done:
        return not_tested("Allocate did not succeed")
    named = [one for one in done if one.cdi_names]
    return named or not_applicable("Allocate returns no CDI devices", *(one.number for one in done))


@resource_check(
    "DEVPLUGIN-28",
    _NAME,
    fix="Return each CDI device in the form VENDOR/CLASS=NAME. The vendor and the class start with a letter.",
    reads=_READS,
)
def cdi_names_are_qualified(evidence: Evidence) -> Finding:
    """Each CDI device has a name with vendor and class."""
    found = _with_names(evidence)
    if isinstance(found, Finding):
        return found
    for one in found:
        if wrong := [name for name in one.cdi_names if not is_qualified(name)]:
            return failed("names such as example.com/gpu=gpu-0", one_line(repr(wrong[0])), one.number)
    names = dict.fromkeys(name for one in found for name in one.cdi_names)
    return passed(f"qualified names: {', '.join(names)}", *(one.number for one in found))


@resource_check(
    "DEVPLUGIN-29",
    _NAME,
    fix="Before Allocate returns, write a valid CDI spec with each returned device to the CDI directory. Keep this "
    "spec.",
    reads=_READS,
)
def cdi_devices_are_in_a_valid_spec(evidence: Evidence) -> Finding:
    """The CDI specs define each CDI device after Allocate has returned it."""
    found = _with_names(evidence)
    if isinstance(found, Finding):
        return found
    read = next(evidence.of(CdiSpecsRead, _NAME), None)
    if read is None:
        reason = "the CDI directory of the plugin is unknown; pass {cdi_dir} in its command, or use a sandbox"
        return not_applicable(reason, found[0].number)
    defined = defined_in(read.what)
    before = [one for one in found if one.number < read.number and any(map(is_qualified, one.cdi_names))]
    for one in before:
        if missing := [name for name in one.cdi_names if name not in defined and is_qualified(name)]:
            expected = f"{one_line(missing[0])} is defined in a valid CDI spec"
            return failed(expected, files_text(read.what), one.number, read.number)
    if not before:
        return not_tested("no qualified name was returned before the CDI specs were read", read.number)
    return passed(f"the CDI specs define all {len(before)} responses", read.number)


# Checks of the lists of a device plugin.

_LONGEST_ID = 63
_WATCH, _PLAN = "list-and-watch", "plugin-fault-plan"


@resource_check(
    "DEVPLUGIN-04",
    _WATCH,
    fix="Send the list of all devices at the start of ListAndWatch, before you wait for changes.",
)
def first_list_is_prompt(evidence: Evidence) -> Finding:
    """The first stream has a list within 10 s."""
    first = next(iter(list_streams(evidence, _WATCH)), None)
    return _prompt(first) if first else not_tested("ListAndWatch was not called")


def _prompt(stream: ListStreamSeen) -> Finding:
    """Whether the stream has a list in time."""
    opened = stream.opened
    if stream.lists:
        delay = stream.lists[0].at - opened.at
        if delay <= FIRST_LIST_WAIT:
            return passed(f"the list came after {delay:.1f} s", opened.number, stream.lists[0].number)
        seen = f"the list came after {delay:.1f} s"
        return failed(f"a list within {FIRST_LIST_LIMIT:g} s", seen, opened.number, stream.lists[0].number)
    if stream.malformed:
        seen = "a message that is not a ListAndWatchResponse"
        return failed(f"a list within {FIRST_LIST_LIMIT:g} s", seen, opened.number, stream.malformed.number)
    if stream.closed is None:
        return not_tested("the stream was not watched to its end", opened.number)
    if not stream.ended_early and stream.closed.at - opened.at < FIRST_LIST_WAIT - 0.1:
        return not_tested("the stream was cancelled early", opened.number, stream.closed.number)
    seen = f"no list; the stream ended: {stream.closed.what.why}"
    return failed(f"a list within {FIRST_LIST_LIMIT:g} s", seen, opened.number, stream.closed.number)


@resource_check(
    "DEVPLUGIN-05",
    _WATCH,
    fix="Give each device its own ID, such as its serial number. List each device once, also while it is broken.",
    reads=(_PLAN,),
)
def device_ids_are_unique(evidence: Evidence) -> Finding:
    """No ID is empty, and none occurs twice in a list."""
    for listed in all_lists(evidence):
        counts = Counter(one.id for one in listed.what.devices)
        if "" in counts:
            return failed("an ID for each device", f"{counts['']} devices without an ID", listed.number)
        if doubles := sorted(name for name, count in counts.items() if count > 1):
            return failed("each ID once in a list", f"several devices have ID {one_line(doubles[0])}", listed.number)
    return _on_lists(evidence, "all IDs are unique")


@resource_check("DEVPLUGIN-06", _WATCH, fix="Use shorter IDs.")
def device_ids_have_at_most_63_characters(evidence: Evidence) -> Finding:
    """No ID is longer than the API allows."""
    for listed in all_lists(evidence):
        if longest := max((one.id for one in listed.what.devices if len(one.id) > _LONGEST_ID), key=len, default=""):
            seen = f"{len(longest)} characters: {one_line(longest)}"
            return failed(f"at most {_LONGEST_ID} characters", seen, listed.number)
    return _on_lists(evidence, f"no ID has more than {_LONGEST_ID} characters")


@resource_check(
    "DEVPLUGIN-07",
    _WATCH,
    fix="Set health to Healthy or Unhealthy. A kubelet treats all other words as Unhealthy.",
    reads=(_PLAN,),
)
def device_health_is_known(evidence: Evidence) -> Finding:
    """Each device has one of the two words of the API."""
    known = (str(Health.HEALTHY), str(Health.UNHEALTHY))
    for listed in all_lists(evidence):
        for one in listed.what.devices:
            if one.health not in known:
                seen = f"{one_line(one.id)} has health {one_line(repr(one.health))}"
                return failed(" or ".join(known), seen, listed.number)
    return _on_lists(evidence, "each device is Healthy or Unhealthy")


@resource_check(
    "DEVPLUGIN-08",
    _WATCH,
    fix="Send all devices in each ListAndWatchResponse. A kubelet removes the devices that a response omits.",
)
def every_list_has_all_devices(evidence: Evidence) -> Finding:
    """The last list of the first stream has the devices that the next stream lists."""
    streams = list_streams(evidence, _WATCH)
    if not streams or not streams[0].lists:
        return not_tested("there was no list")
    first, *later = streams
    if len(first.lists) == 1:
        return static("the plugin sent one list; no device changed", first.lists[0].number)
    if not later or not later[0].lists:
        return not_tested("ListAndWatch was not called again", first.lists[-1].number)
    start, end, again = first.lists[0], first.lists[-1], later[0].lists[0]
    if left_out := (ids(start) & ids(again)) - ids(end):
        seen = f"a later list without {_named(left_out)}, which the next stream lists again"
        return failed("all devices in each list", seen, start.number, end.number, again.number)
    seen = f"{len(first.lists)} lists, the last one with {len(ids(end))} devices"
    return passed(seen, start.number, end.number, again.number)


@resource_check(
    "DEVPLUGIN-09",
    _WATCH,
    fix="Return from ListAndWatch only when the kubelet cancels the call, or when the plugin ends.",
    reads=(_PLAN,),
)
def list_stream_stays_open(evidence: Evidence) -> Finding:
    """The plugin does not end a stream of any experiment, unless drahealth ends it or restarts the kubelet."""
    streams, unseen = list_streams(evidence, _WATCH), None
    for stream in list_streams(evidence):
        opened, closed = stream.opened, stream.closed
        if closed is None or not stream.ended_early or _kubelet_or_socket_gone(evidence, opened, closed):
            continue
        if cause := cause_of_end(evidence, opened, closed):
            if isinstance(cause.what, ProcessExited):
                unseen = unseen or not_tested(exit_text(cause.what), cause.number)
            elif opened.experiment == _WATCH:
                unseen = unseen or not_tested("drahealth ended the plugin", cause.number)
            continue
        where = "" if opened.experiment == _WATCH else f" of experiment {opened.experiment}"
        seen = f"the stream{where} ended after {closed.at - opened.at:.1f} s: {closed.what.why}"
        return failed("a stream that stays open", seen, opened.number, closed.number)
    if unseen:
        return unseen
    if not streams or streams[0].closed is None:
        return not_tested("no stream was watched to its end")
    closed = streams[0].closed
    seen = f"the stream stayed open for {closed.at - streams[0].opened.at:.1f} s"
    return passed(seen, streams[0].opened.number, closed.number)


def _kubelet_or_socket_gone(
    evidence: Evidence, opened: Observation[StreamOpened], closed: Observation[StreamClosed]
) -> bool:
    """Whether a plugin had to register again: its kubelet stopped, or drahealth removed its socket.

    A plugin can notice this late, after it has registered: then it registers once more.
    """
    process = EXPERIMENTS[opened.experiment].process
    gone = [one.number for one in evidence.of(SocketRemoved) if one.what.process == process]
    gone += [one.number for one in evidence.of(KubeletSwitched) if one.what.process == process and not one.what.running]
    if any(opened.number < number < closed.number for number in gone):
        return True
    again = (one.number for one in registrations(evidence, opened.experiment) if one.resource == opened.what.driver)
    return any(number < opened.number for number in gone) and any(number > opened.number for number in again)


@resource_check(
    "DEVPLUGIN-10",
    _WATCH,
    fix="Send the list of all devices at the start of each call of ListAndWatch.",
    reads=("plugin-kubelet-restart",),
)
def new_stream_lists_all_devices(evidence: Evidence) -> Finding:
    """The second stream, and that after a restart of the kubelet, starts with the list of all devices."""
    streams = list_streams(evidence, _WATCH, "plugin-kubelet-restart")
    before = next((one for one in streams if one.lists), None)
    later = [one for one in streams if before and one.opened.number > before.opened.number]
    if before is None or not later:
        return not_tested("ListAndWatch was not called again")
    unproven = None
    for stream in later:
        found = _prompt(stream)
        if found.verdict is Verdict.FAIL:
            return found
        if found.verdict is not Verdict.PASS:
            unproven = unproven or found
            continue
        known = ids(before.lists[-1])
        if missing := known - ids(stream.lists[0]):
            seen = f"a first list without {_named(missing)}"
            return failed("all devices", seen, before.lists[-1].number, stream.lists[0].number)
        before = stream
    if unproven:
        return unproven
    numbers = (stream.lists[0].number for stream in later)
    return passed(f"{len(later)} more streams started with all devices", *numbers)


def _on_lists(evidence: Evidence, seen: str) -> Finding:
    lists: list[Observation[ListReceived]] = list(all_lists(evidence))
    if not any(one.what.devices for one in lists):
        return not_tested("no device was listed")
    return passed(f"{seen}, in {len(lists)} lists", *(one.number for one in lists[:5]))


def _named(devices: frozenset[str], limit: int = 5) -> str:
    names = sorted(map(one_line, devices))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
