"""docs/reference/driver-requirements.md: requirements, experiments and rules, from the ledger and the checks."""

from collections.abc import Iterator

from drahealth.suites.driver_checks.all_checks import CHECKS
from drahealth.suites.driver_checks.experiments import EXPERIMENTS
from drahealth.suites.driver_checks.fault_plan import AFTER_AGAIN, AGAIN, DRIVERS, PLUGINS, Dimension
from drahealth.suites.driver_checks.verdicts import DriverRequirement, SubjectKind, requirements
from drahealth.suites.observing.rules import RULES

INTRODUCTION = """\
If the ID of a requirement starts with DEVPLUGIN, the requirement is for device plugins
([drivers.md](../drivers.md#check-a-device-plugin)), and *plugin* means the device plugin. All other requirements are
for DRA drivers ([drivers.md](../drivers.md#placeholders)).

A driver or device plugin conforms if it meets every MUST that applies to it. The result also lists each violated
SHOULD, but a violated SHOULD does not change the verdict.

Each requirement has these lines:

- **Judged by**: the commands that judge the requirement. `drahealth certify` means both levels of this command, `core`
  (the default) and `full` ([drivers.md](../drivers.md#the-certificate)).
- **Source**: the text that contains the requirement.
- **Reading**: how we read a source that leaves a choice, and why.
- **Applies to**: the releases of Kubernetes to which the requirement applies.
- **Health APIs**: the health APIs to which the requirement applies. Without this line, it applies to all health APIs.
- **Experiments**: the [experiments](#experiments) that the checks of the requirement need. A check can also use the
  results of other experiments.
- **Fix**: what you can do if a check of the requirement fails. There is one line for each check.
  `{registry_dir}` and `{device_plugins_dir}` are placeholders for directories of drahealth
  ([drivers.md](../drivers.md#placeholders)).

"""
INTRODUCTIONS = {
    "Pod status": """\
If the line “Judged by” names only `drahealth certify --level full`, the Pod runs on a real kubelet. For all other
requirements, the Pod runs on the reference, also at level `full`.

"""
}
"""The text at the start of a family."""
EXPERIMENTS_HEAD = """
## Experiments

An experiment does something to a driver, and records what happens. It judges nothing. drahealth starts the driver
several times. The column `process` names the process of the driver that an experiment uses. Experiments of different
processes run at the same time. The column `seconds` is the usual duration, without the time that each fault of the
driver profile adds. If drahealth checks a driver that already runs, it starts no process, and `main` is the running
driver.

| experiment | process | seconds | what the experiment does |
|---|---|---|---|
"""
PLUGIN_EXPERIMENTS_HEAD = """
## Experiments on device plugins

In this table, *kubelet* is the part of drahealth that calls the device plugin, except in “a real kubelet”. Each process
of the device plugin has its own kubelet, with its own directory.

| experiment | process | seconds | what the experiment does |
|---|---|---|---|
"""

FAULTS_HEAD = """
## What each level covers

`drahealth check` causes no faults. At level `core`, the experiment `fault-plan` covers each value of this table. At
level `full`, it covers each pair of a device, a moment and a change, in at most 120 s. A change has several steps, and
a pair with it is covered if one of them happens. Several devices break side by side; the others are bystanders. The
certificate lists the covered values, and what the driver profile could not cause.

Level `full` also causes faults while the driver is stopped with SIGSTOP, without a stream, across a kill of the driver,
and after a kill of a scripted backend ([experiments](#experiments)).

| dimension | value | meaning | core | full |
|---|---|---|---|---|
"""
PLUGIN_FAULTS_HEAD = """
For device plugins, the experiment `plugin-fault-plan` does the same, in at most 150 s. As on a node, there is one
ListAndWatch stream for each registration.

| dimension | value | meaning | core | full |
|---|---|---|---|---|
"""

OBSERVE_HEAD = """
## Rules of observe

`drahealth observe` judges these rules on each node, from the API alone
([drivers.md](../drivers.md#observe-an-installed-driver)).

| rule | level | subject | what must hold | source |
|---|---|---|---|---|
"""


def driver_requirements_page(note: str) -> str:
    """The page; `note` names its source."""
    return "".join(_parts(note))


def _parts(note: str) -> Iterator[str]:
    yield f"# Requirements of DRA drivers and device plugins\n\n{note}{INTRODUCTION}"
    for family in dict.fromkeys(one.family for one in requirements().values()):
        yield f"## {family[0].upper()}{family[1:]}\n\n{INTRODUCTIONS.get(family, '')}"
        for one in requirements().values():
            if one.family == family:
                yield from _requirement(one)
    yield EXPERIMENTS_HEAD.removeprefix("\n")
    yield from _table("dra-driver")
    yield PLUGIN_EXPERIMENTS_HEAD
    yield from _table("device-plugin")
    yield FAULTS_HEAD
    yield from _dimensions()
    yield OBSERVE_HEAD
    for rule in RULES:
        yield f"| {rule.id} | {rule.level} | {rule.family} | {rule.sentence} | [{rule.source}]({rule.link}) |\n"


def _dimensions() -> Iterator[str]:
    for dimension in DRIVERS.dimensions:
        for value, meaning in dimension.values.items():
            core, full = _covered(dimension, value, "in each stage")
            first = f"at the moment {AGAIN}" if value == AFTER_AGAIN else core
            yield f"| {dimension.name} | {value} | {meaning} | {first} | {full} |\n"
    yield PLUGIN_FAULTS_HEAD
    for dimension in PLUGINS.dimensions:
        for value, meaning in dimension.values.items():
            core, full = _covered(dimension, value, "at some moments")
            yield f"| {dimension.name} | {value} | {meaning} | {core} | {full} |\n"


def _covered(dimension: Dimension, value: str, otherwise: str) -> tuple[str, str]:
    """How often levels core and full cause a value. `otherwise` is for dimensions without pairs."""
    if not dimension.pairs:
        return otherwise, otherwise
    return "once", "with each value of the other two"


def _table(subject: SubjectKind) -> Iterator[str]:
    for experiment in (one for one in EXPERIMENTS.values() if one.subject == subject):
        yield f"| {experiment.name} | {experiment.process} | {experiment.seconds:g} | {experiment.sentence} |\n"


def _commands(one: DriverRequirement) -> str:
    """The commands that judge a requirement."""
    if one.scope == "check":
        return "`drahealth check`, `drahealth certify`"
    return "`drahealth certify`" if one.scope == "core" else "`drahealth certify --level full`"


def _releases(kubernetes: str) -> str:
    return "the KEP only; no release has this API" if kubernetes == "KEP only" else f"Kubernetes {kubernetes}"


def _requirement(one: DriverRequirement) -> Iterator[str]:
    checks = [check for check in CHECKS.values() if check.requirement == one.id]
    experiments = dict.fromkeys(name for check in checks for name in check.experiments)
    yield f"### {one.id}\n\n**{one.level}**. {one.sentence}\n\n"
    if len({other.scope for other in requirements().values()}) > 1:
        yield f"- Judged by: {_commands(one)}\n"
    yield f"- Source: [{one.source}]({one.link})\n- Applies to: {_releases(one.kubernetes)}\n"
    if one.reading:
        yield f"- Reading: {one.reading}\n"
    if one.apis:
        yield f"- Health APIs: {', '.join(f'`{api}`' for api in one.apis)}\n"
    yield f"- Experiments: {', '.join(experiments)}\n"
    yield from (f"- Fix: {check.fix}\n" for check in checks)
    yield "\n"
