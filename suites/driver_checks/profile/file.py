"""Driver profiles as files: all mistakes of a file are reported at once."""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from drahealth.fakes.cluster.api import CLAIMS, Object
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
from drahealth.suites.driver_checks.declared_faults import strings
from drahealth.suites.driver_checks.profile.model import (
    ActionSection,
    ApiServerSection,
    ClaimSection,
    DriverProfile,
    DriverSection,
    FaultSection,
    HelperSection,
)
from drahealth.suites.driver_checks.profile.pod import (
    PodStart,
    api_objects,
    claim_objects,
    objects_beside,
    pod_start,
    workload,
)
from drahealth.suites.driver_checks.subject.driver_pod import namespace_of
from drahealth.suites.driver_checks.subject.places import NAMES, placeholders_in

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
    return Document(data, source, dict.fromkeys(_places(data, ()), NO_LINE))


def _places(value: Any, place: Place) -> Iterator[Place]:
    """The place of each table, key and element."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _places(one, (*place, key))


# Driver profiles as files: all mistakes of a file are reported at once, each with its key and a hint.


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A valid driver profile, and what it names."""

    path: Path
    sha256: str
    """Digest of the file."""
    profile: DriverProfile
    objects: tuple[Object, ...]
    """The objects for the API server."""
    claim: tuple[Object, ...]
    """The user's claims with their DeviceClasses; empty for claims of drahealth."""
    pod: PodStart | None = None
    """What the container of the driver's Pod starts; None without a Pod, and in a cluster."""
    workload: Object | None = None
    """The object with the driver's Pod, for a cluster; None without one."""

    @property
    def name(self) -> str:
        """The name of the file without its extension."""
        return self.path.stem

    @property
    def folder(self) -> Path:
        """The folder to which paths in the file are relative."""
        return self.path.absolute().parent


def read_profile(path: Path) -> ProfileFile:
    """Reads a driver profile. Raises FileError with all mistakes, and OSError if the file cannot be read."""
    content = read(path)
    try:
        document = toml_document(content.decode(), str(path))
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise FileError(str(path), [Problem(line, "", "invalid TOML: the file is not UTF-8")]) from None
    folder = path.absolute().parent
    problems = document.problems(_mistakes(document, folder))
    try:
        profile = validated(DriverProfile, document)
    except FileError as error:
        raise FileError(str(path), [*error.problems, *problems]) from None
    if problems:
        raise FileError(str(path), problems)
    objects = tuple(one for name in profile.api_server.objects for one in api_objects(folder / name))
    pod, made = None, None
    if (name := profile.driver.pod) and profile.driver.cluster:
        made = workload(folder / name, profile.driver.container)
        objects = objects_beside(folder / name, namespace_of(made))
    elif name:
        pod = pod_start(folder / name, profile.driver.container, objects)
        objects = (*objects, *objects_beside(folder / name, pod.namespace))
    return ProfileFile(
        path,
        hashlib.sha256(content).hexdigest(),
        profile,
        objects if profile.api_server.kind != "none" or profile.api_server.kubeconfig else (),
        claim_objects([folder / name for name in profile.claim.manifests]),
        pod,
        made,
    )


def _mistakes(document: Document, folder: Path) -> Iterator[Finding]:
    """What the model cannot see: unknown placeholders, and wrong files. As far as each part is readable."""
    data = document.data
    driver = valid_fields(DriverSection, data.get("driver"), ["command", "environment", "working-directory"])
    for number, word in enumerate(driver.get("command", ())):
        yield from _placeholders(word, ("driver", "command", number))
    for name, value in driver.get("environment", {}).items():
        yield from _placeholders(value, ("driver", "environment", name))
    for helper, section in enumerate(data.get("helper", ()) if isinstance(data.get("helper"), list) else ()):
        given = valid_fields(HelperSection, section, ["command", "environment", "ready", "ready-command"])
        words = [(("command", number), word) for number, word in enumerate(given.get("command", ()))]
        words += [(("environment", name), value) for name, value in given.get("environment", {}).items()]
        words += [(("ready-command", number), word) for number, word in enumerate(given.get("ready-command", ()))]
        for place, word in [*words, (("ready",), given.get("ready", ""))]:
            yield from _placeholders(word, ("helper", helper, *place))
    where = folder / driver.get("working-directory", ".")
    if not where.is_dir():
        yield ("driver", "working-directory"), f"{where} is not a directory"
    yield from _pod_mistakes(data, folder)
    yield from _fault_mistakes(data.get("fault"), folder)
    names = valid_fields(ApiServerSection, data.get("api-server"), ["objects"]).get("objects", ())
    for number, name in enumerate(names):
        yield from _file(folder / name, api_objects, ("api-server", "objects", number))
    names = valid_fields(ClaimSection, data.get("claim"), ["manifests"]).get("manifests", ())
    wrong = [
        found
        for number, name in enumerate(names)
        for found in _file(folder / name, lambda path: claim_objects([path]), ("claim", "manifests", number))
    ]
    yield from wrong
    if names and not wrong and CLAIMS.kind not in {one["kind"] for one in claim_objects([folder / n for n in names])}:
        yield ("claim", "manifests"), "the files have neither a ResourceClaim nor a ResourceClaimTemplate"


def _pod_mistakes(data: dict[str, Any], folder: Path) -> Iterator[Finding]:
    """Mistakes in the manifest of the driver's Pod, and a missing command."""
    given = valid_fields(DriverSection, data.get("driver"), ["pod", "container", "command", "cluster"])
    if not (name := given.get("pod")):
        return
    if given.get("cluster"):
        yield from _file(folder / name, partial(_read_workload, given.get("container", "")), ("driver", "pod"))
        return
    names = valid_fields(ApiServerSection, data.get("api-server"), ["objects"]).get("objects", ())
    starts: list[PodStart] = []

    def reading(path: Path) -> None:
        with suppress(FileError, OSError):  # `objects` reports these
            objects = [one for each in names for one in api_objects(folder / each)]
            path = path.absolute()
        starts.append(pod_start(path, given.get("container", ""), objects))
        objects_beside(path, starts[0].namespace)

    place: Place = ("driver", "pod")
    yield from _file(folder / name, reading, place)
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
            action = valid_fields(FaultSection, one, [key]).get(key)
            if not isinstance(action, ActionSection):
                continue
            place: Place = ("fault", number, key)
            for word in strings(action.action(folder, key)):
                yield from _placeholders(word, place, "device")
            if action.backend and not (folder / action.backend).is_file():
                yield (*place, "backend"), f"{folder / action.backend} is not a file"


def _placeholders(word: str, place: Place, *more: str) -> Iterator[Finding]:
    for name in sorted(placeholders_in([word]).difference((*NAMES, *more))):
        yield place, f"unknown placeholder {{{name}}}; {near(name, (*NAMES, *more))}"


def _file(path: Path, reading: Callable[[Path], Any], place: Place) -> Iterator[Finding]:
    """The mistakes of a file that the profile names."""
    try:
        reading(path)
    except FileError as error:
        for problem in error.problems:
            yield place, f"{path.name}, {problem}"
    except OSError as error:
        yield place, f"cannot read {path}: {error.strerror}"
