"""Checks of the lists of a device plugin."""

from collections import Counter

from drahealth.proto.events import (
    KubeletSwitched,
    ListReceived,
    ProcessExited,
    SocketRemoved,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.quoting import one_line
from drahealth.proto.values import Health
from drahealth.suites.checking.device_plugins.checks.resources import resource_check
from drahealth.suites.checking.device_plugins.observed import (
    FIRST_LIST_LIMIT,
    FIRST_LIST_WAIT,
    ListStreamSeen,
    all_lists,
    ids,
    list_streams,
    registrations,
)
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.experiments.plan import EXPERIMENTS
from drahealth.suites.checking.observed.processes import cause_of_end
from drahealth.suites.checking.output_text import exit_text
from drahealth.suites.checking.verdicts import Finding, Verdict, failed, not_tested, passed, static

_LONGEST_ID = 63
_WATCH = "list-and-watch"


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


@resource_check("DEVPLUGIN-05", _WATCH, fix="Give each device its own ID, such as its serial number.")
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
    "DEVPLUGIN-07", _WATCH, fix="Set health to Healthy or Unhealthy. A kubelet treats all other words as Unhealthy."
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
    for stream in later:
        found = _prompt(stream)
        if found.verdict is not Verdict.PASS:
            return found
        known = ids(before.lists[-1])
        if missing := known - ids(stream.lists[0]):
            seen = f"a first list without {_named(missing)}"
            return failed("all devices", seen, before.lists[-1].number, stream.lists[0].number)
        before = stream
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
