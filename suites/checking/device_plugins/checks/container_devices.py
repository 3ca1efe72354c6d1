"""Checks of the CDI devices in the responses of Allocate."""

from drahealth.proto.events import CdiSpecsRead
from drahealth.proto.quoting import one_line
from drahealth.suites.checking.device_plugins.checks.resources import resource_check
from drahealth.suites.checking.device_plugins.observed import AllocateCall, allocations, without_healthy_device
from drahealth.suites.checking.evidence import Evidence
from drahealth.suites.checking.kubelet.cdi_specs import defined_in, files_text, is_qualified
from drahealth.suites.checking.verdicts import Finding, failed, not_applicable, not_tested, passed

_NAME = "allocation"
_READS = ("list-and-watch",)  # it has the devices


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
