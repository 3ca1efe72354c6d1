"""Experiments that ended, and processes that ended by themselves."""

from collections.abc import Iterator
from math import inf

from drahealth.proto.device_plugin import REGISTER
from drahealth.proto.events import (
    ExperimentEnded,
    ExperimentStarted,
    GrpcCall,
    ListReceived,
    PluginRegistered,
    ProcessExited,
    ProcessStarted,
    ReportReceived,
    SignalSent,
    StreamClosed,
    StreamOpened,
)
from drahealth.proto.services import GET_INFO
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.experiments.plan import EXPERIMENTS

_REGISTRATION = (GET_INFO.path, REGISTER.path)
"""The calls that a registration begins with: of a kubelet, or of a device plugin."""


def is_done(evidence: Evidence, *experiments: str) -> bool:
    """Whether these experiments reached their end. Only then absence of an event proves something."""
    done = {one.experiment for one in evidence.of(ExperimentEnded) if one.what.outcome == "done"}
    return done.issuperset(experiments)


def crashes(evidence: Evidence, *processes: str) -> Iterator[Observation[ProcessExited]]:
    """The exits of these processes without a signal, while an experiment used the process."""
    for exit_ in evidence.of(ProcessExited):
        process = exit_.what.process
        if process in processes and not _signalled(evidence, exit_) and _in_use(evidence, exit_):
            yield exit_


def cause_of_end(
    evidence: Evidence, opened: Observation[StreamOpened], closed: Observation[StreamClosed]
) -> Observation[SignalSent] | Observation[ProcessExited] | None:
    """What ended a stream that drahealth did not cancel; None for the driver itself, while it ran.

    The cause is a signal of drahealth that the process got before, or the exit of the process. An exit is recorded
    after the end of the streams. It is the cause only if the process did nothing in between. It is also the cause for
    streams that a kubelet opens later, before the driver is registered again.
    """
    if opened.experiment not in EXPERIMENTS:
        return None
    process = EXPERIMENTS[opened.experiment].process
    for sent in evidence.of(SignalSent):
        if sent.what.process == process and opened.number < sent.number < closed.number and _ends(sent.what):
            return sent
    exits = [one for one in evidence.of(ProcessExited) if one.what.process == process]
    before = next((one for one in reversed(exits) if one.number < opened.number), None)
    if before and not _registers(evidence, process, before.number, opened.number):
        return before
    exit_ = next((one for one in exits if one.number > closed.number), None)
    if exit_ is None or _signalled(evidence, exit_) or _works(evidence, process, closed, exit_.number):
        return None
    return exit_


def _registers(evidence: Evidence, process: str, since: int, until: int) -> bool:
    """Whether a driver, or a device plugin, registered between two records."""
    for record in evidence.records:
        if not since < record.number < until or EXPERIMENTS[record.experiment].process != process:
            continue
        match record.what:
            case PluginRegistered():
                return True
            case GrpcCall() as call if call.code == "OK" and f"/{call.method}" in _REGISTRATION:
                return True
    return False


def _works(evidence: Evidence, process: str, since: Observation[StreamClosed], until: int) -> bool:
    """Whether a process answered a call, or reported on a stream, that began after a record."""
    opened = set[str]()
    for record in evidence.records:
        if not since.number < record.number < until or EXPERIMENTS[record.experiment].process != process:
            continue
        match record.what:
            case StreamOpened(stream=stream):
                opened.add(stream)
            case ReportReceived(stream=stream) | ListReceived(stream=stream) if stream in opened:
                return True
            case GrpcCall() as call if call.code == "OK" and record.at - call.seconds > since.at:
                return True
    return False


def children_text(number: int) -> str:
    """How many child processes outlived a process for 10 s."""
    many = f"{number} child processes" if number > 1 else "a child process"
    return f"{many} still ran 10 s after the exit"


def _signalled(evidence: Evidence, exit_: Observation[ProcessExited]) -> bool:
    process = exit_.what.process
    starts = [one.number for one in evidence.of(ProcessStarted) if one.what.process == process]
    start = max((number for number in starts if number < exit_.number), default=0)
    ending = (one for one in evidence.of(SignalSent) if _ends(one.what))
    sent = [one.number for one in ending if one.what.process == process]
    return any(start < number < exit_.number for number in sent)


def _ends(sent: SignalSent) -> bool:
    return sent.signal not in ("SIGSTOP", "SIGCONT")


def _in_use(evidence: Evidence, exit_: Observation[ProcessExited]) -> bool:
    """drahealth kills a process at the end of its last experiment; such an exit comes after all of them ended."""
    process = exit_.what.process
    using = {one.experiment: one.number for one in evidence.of(ExperimentStarted) if one.what.process == process}
    ended = {one.experiment: one.number for one in evidence.of(ExperimentEnded)}
    return any(began < exit_.number and exit_.number < ended.get(name, inf) for name, began in using.items())
