"""Checks of CDI device IDs and CDI specs."""

from drahealth.proto.events import CdiSpecsRead
from drahealth.suites.checking.checks.registry import check
from drahealth.suites.checking.evidence import Evidence, Observation
from drahealth.suites.checking.kubelet.cdi_specs import defined_in, files_text
from drahealth.suites.checking.observed.claims import Step, steps
from drahealth.suites.checking.observed.devices import Device, published
from drahealth.suites.checking.observed.streams import absence
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed


def _prepared(evidence: Evidence) -> list[Step]:
    """The calls that prepared a claim."""
    return [one for one in steps(evidence, "claims") if one.call.kind == "prepare" and not one.problem]


@check(
    "PLUGIN-12",
    "claims",
    fix="Before NodePrepareResources returns, write a valid CDI spec to the CDI directory. The spec must define each "
    "CDI device ID that NodePrepareResources returns.",
)
def cdi_device_ids_are_in_a_valid_spec(evidence: Evidence) -> Finding:
    """The CDI device IDs of prepared claims are defined in a valid spec of the CDI directory."""
    prepared, reads = _prepared(evidence), list(evidence.of(CdiSpecsRead, "claims"))
    if not prepared:
        return not_tested("no claim was prepared")
    if not any(one.cdi_ids for step in prepared for one in step.devices):
        return not_applicable("the driver returns no CDI device IDs", *(step.number for step in prepared))
    if not reads and not evidence.header.started_by_us:
        return not_applicable("the CDI directory of a running driver is unknown", prepared[0].number)
    judged = [(step, read) for read in reads for step in _held(evidence, read)]
    if not judged:
        return not_tested("the CDI directory was not read after a claim was prepared", prepared[0].number)
    for step, read in judged:
        defined = defined_in(read.what)
        wanted = [name for one in step.devices for name in one.cdi_ids]
        if missing := [name for name in wanted if name not in defined]:
            expected = f"{missing[0]} is defined in a valid CDI spec"
            return failed(expected, files_text(read.what), step.number, read.number)
    names = {name for step, _ in judged for one in step.devices for name in one.cdi_ids}
    return passed(f"defined: {', '.join(sorted(names))}", *dict.fromkeys(read.number for _, read in judged))


def _held(evidence: Evidence, read: Observation[CdiSpecsRead]) -> list[Step]:
    """The last call for each claim that is prepared with CDI device IDs at the time of the read."""
    held: dict[str, Step] = {}
    for step in steps(evidence, "claims"):
        if step.number > read.number:
            break
        if not step.problem and step.call.kind == "prepare":
            held[step.uid] = step
        elif not step.problem:
            held.pop(step.uid, None)
    return [step for step in held.values() if any(device.cdi_ids for device in step.devices)]


@check(
    "HEALTH-16",
    "services",
    "claims",
    fix="For each device, return first a CDI device ID that no other device has. Return shared IDs after it.",
    reads=("slices",),
)
def first_cdi_device_id_is_unique(evidence: Evidence) -> Finding:
    """No two prepared devices have the same first CDI device ID."""
    if absent := absence(evidence):
        return not_applicable(absent[0], *absent[1])
    first: dict[str, dict[Device, int]] = {}
    for step in _prepared(evidence):
        for one in step.devices:
            if one.cdi_ids:
                first.setdefault(one.cdi_ids[0], {}).setdefault(one.device, step.number)
    for name, devices in first.items():
        if len(devices) > 1:
            shown, *hidden = devices
            seen = f"{', '.join(map(str, devices))} have {name}: kubelets up to 1.37 show only {shown}, and not "
            seen += ", ".join(map(str, hidden))
            return failed("a different first CDI device ID for each device", seen, *devices.values())
    devices = {device: number for found in first.values() for device, number in found.items()}
    if len(devices) > 1:
        return passed(f"first CDI device IDs: {', '.join(sorted(first))}", *devices.values())
    if any(step.devices for step in _prepared(evidence)) and not devices:
        return not_applicable("the driver returns no CDI device IDs", *(step.number for step in _prepared(evidence)))
    if len(published(evidence).ever) == 1:
        return not_applicable("the driver publishes one device", *published(evidence).record)
    return not_tested("fewer than two devices were prepared", *devices.values())
