"""Driver profiles as files, or as the same sections in memory: all mistakes are reported at once."""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import CLAIMS
from drahealth.fakes.hints import near
from drahealth.fakes.program.user_files import (
    NO_LINE,
    Document,
    FileError,
    Finding,
    Place,
    Problem,
    read,
    valid_fields,
    validated,
)
from drahealth.suites.driver_checks.driver_run import DriverRun
from drahealth.suites.driver_checks.profile.faults import Fault, TellBackend, strings
from drahealth.suites.driver_checks.profile.manifests import (
    PodStart,
    api_objects,
    claim_objects,
    objects_beside,
    pod_start,
    workload,
)
from drahealth.suites.driver_checks.profile.model import (
    FORMAT,
    ApiServerSection,
    ClaimSection,
    DriverProfile,
    DriverSection,
    Helper,
    SandboxSection,
)
from drahealth.suites.driver_checks.subject.driver_pod import InCluster, namespace_of
from drahealth.suites.driver_checks.subject.places import NAMES, placeholders_in
from drahealth.suites.driver_checks.subject.sandbox import SERVICE_ACCOUNT_DIR, Volume

PODS_MARGIN = 30.0
"""Seconds beyond the grace of a Pod in which a cluster ends it."""

# TOML as a document, so that errors are reported as those of YAML files. `tomllib` reads values, and no lines.


def toml_document(text: str, source: str) -> Document:
    """The document of a text. Raises FileError for invalid TOML."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, position = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", position)
        last = len(text.splitlines()) or 1
        raise FileError(source, [Problem(int(line[1]) if line else last, "", f"invalid TOML: {what}")]) from None
    except RecursionError:
        raise FileError(source, [Problem(1, "", "invalid TOML: too many levels")]) from None
    return _document(data, source)


def _document(data: Any, source: str) -> Document:
    return Document(data, source, dict.fromkeys(_places(data, ()), NO_LINE))


def _places(value: Any, place: Place) -> Iterator[Place]:
    """The place of each table, key and element."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, (*place, key))


# The profile of a file or of sections, and the run of a file.


def profile_of(data: Mapping[str, Any], source: str = "driver profile") -> DriverProfile:
    """The profile of these sections, as a file would have them. Raises FileError with all mistakes."""
    return validated(DriverProfile, _document({"format": FORMAT, **data}, source))


def read_profile(path: Path) -> DriverRun:
    """Reads a driver profile, and what it names. Raises FileError with all mistakes, and OSError.

    The result is the run of a certification at level core.
    """
    content = read(path)
    try:
        document = toml_document(content.decode(), str(path))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(str(path), [Problem(line, "", "invalid TOML: the file is not UTF-8")]) from None
    folder = path.absolute().parent
    problems = document.problems(_mistakes(document.data, folder))
    try:
        profile = validated(DriverProfile, document, folder)
    except FileError as error:
        raise FileError(str(path), [*error.problems, *problems]) from None
    if problems:
        raise FileError(str(path), problems)
    objects = tuple(one for each in profile.api_server.objects for one in api_objects(each))
    run = DriverRun(
        profile,
        objects=objects if profile.api_server_kind != "none" else (),
        claim=claim_objects(profile.claim.manifests),
        name=path.stem,
        sha256=hashlib.sha256(content).hexdigest(),
        level="core",
    )
    return _with_pod(run, profile.driver.pod) if profile.driver.pod else run


def _with_pod(run: DriverRun, manifest: Path) -> DriverRun:
    """The run of a driver that starts as the manifest of its Pod says."""
    profile, driver = run.profile, run.profile.driver
    if driver.cluster:
        made = workload(manifest, driver.container)
        grace = InCluster(made, driver.cluster).grace + PODS_MARGIN
        driver = driver.model_copy(update={"grace": grace})
        objects = objects_beside(manifest, namespace_of(made))
        return replace(run, profile=profile.model_copy(update={"driver": driver}), objects=objects, workload=made)
    pod = pod_start(manifest, driver.container, run.objects)
    command = (*(driver.command or pod.command), *pod.arguments)
    driver = driver.model_copy(update={"command": command, "environment": {**pod.environment, **driver.environment}})
    sandbox = profile.sandbox or SandboxSection()  # for its volumes
    return replace(
        run,
        profile=profile.model_copy(update={"driver": driver, "sandbox": sandbox}),
        objects=(*run.objects, *objects_beside(manifest, pod.namespace)) if profile.api_server_kind != "none" else (),
        volumes=(*pod.volumes, Volume(SERVICE_ACCOUNT_DIR, files=(("namespace", pod.namespace),))),
    )


def _mistakes(data: Any, folder: Path) -> Iterator[Finding]:
    """What the model cannot see: unknown placeholders, and wrong files. As far as each part is readable."""
    driver = valid_fields(DriverSection, data.get("driver"), ["command", "environment", "working-directory"], folder)
    for key in ("command", "environment"):
        yield from _placeholders(driver.get(key), ("driver", key))
    for number, section in enumerate(data.get("helper", ()) if isinstance(data.get("helper"), list) else ()):
        for key, value in valid_fields(Helper, section, ["command", "environment", "ready", "ready-command"]).items():
            yield from _placeholders(value, ("helper", number, key))
    where = driver.get("working-directory", folder)
    if not where.is_dir():
        yield ("driver", "working-directory"), f"{where} is not a directory"
    yield from _pod_mistakes(data, folder)
    yield from _fault_mistakes(data.get("fault"), folder)
    names = valid_fields(ApiServerSection, data.get("api-server"), ["objects"], folder).get("objects", ())
    for number, name in enumerate(names):
        yield from _file(name, api_objects, ("api-server", "objects", number))
    names = valid_fields(ClaimSection, data.get("claim"), ["manifests"], folder).get("manifests", ())
    wrong = [
        found
        for number, name in enumerate(names)
        for found in _file(name, lambda path: claim_objects([path]), ("claim", "manifests", number))
    ]
    yield from wrong
    if names and not wrong and CLAIMS.kind not in {one["kind"] for one in claim_objects(names)}:
        yield ("claim", "manifests"), "the files have neither a ResourceClaim nor a ResourceClaimTemplate"


def _pod_mistakes(data: dict[str, Any], folder: Path) -> Iterator[Finding]:
    """Mistakes in the manifest of the driver's Pod, and a missing command."""
    given = valid_fields(DriverSection, data.get("driver"), ["pod", "container", "command", "cluster"], folder)
    if not (name := given.get("pod")):
        return
    if given.get("cluster"):
        yield from _file(name, partial(_read_workload, given.get("container", "")), ("driver", "pod"))
        return
    names = valid_fields(ApiServerSection, data.get("api-server"), ["objects"], folder).get("objects", ())
    starts: list[PodStart] = []

    def reading(path: Path) -> None:
        with suppress(FileError, OSError):  # `objects` reports these
            objects = [one for each in names for one in api_objects(each)]
        starts.append(pod_start(path, given.get("container", ""), objects))
        objects_beside(path, starts[0].namespace)

    place: Place = ("driver", "pod")
    yield from _file(name, reading, place)
    for start in starts:
        if not (start.command or given.get("command")):
            yield place, f"the container has no command; set command of [driver] to the command of image {start.image}"
        for word in (*start.command, *start.arguments, *start.environment.values()):
            yield from _placeholders(word, place)


def _read_workload(container: str, path: Path) -> None:
    """Raises FileError for mistakes in the manifest of a Pod for a cluster, and OSError."""
    objects_beside(path, namespace_of(workload(path, container)))


def _fault_mistakes(data: Any, folder: Path) -> Iterator[Finding]:
    """Unknown placeholders and missing scripts in the faults that are readable."""
    for number, one in enumerate(data if isinstance(data, list) else ()):
        for key in ("break", "change", "heal"):
            action = valid_fields(Fault, one, [key], folder).get(key)
            if action is None or isinstance(action, str):
                continue
            place: Place = ("fault", number, key)
            for word in strings(action):
                yield from _placeholders(word, place, "device")
            if isinstance(action, TellBackend) and not action.script.is_file():
                yield (*place, "backend"), f"{action.script} is not a file"


def _placeholders(value: Any, place: Place, *more: str) -> Iterator[Finding]:
    """The unknown placeholders in a text, or in the texts of a list or table."""
    if isinstance(value, str):
        for name in sorted(placeholders_in([value]).difference((*NAMES, *more))):
            yield place, f"unknown placeholder {{{name}}}; {near(name, (*NAMES, *more))}"
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value or ()):
        yield from _placeholders(one, (*place, key), *more)


def _file(path: Path, reading: Callable[[Path], Any], place: Place) -> Iterator[Finding]:
    """The mistakes of a file that the profile names."""
    try:
        reading(path)
    except FileError as error:
        for problem in error.problems:
            yield place, f"{path.name}, {problem}"
    except OSError as error:
        yield place, f"cannot read {path}: {error.strerror}"
