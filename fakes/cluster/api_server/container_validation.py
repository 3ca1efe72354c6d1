"""Validates the containers in the spec of a Pod: names, images, ports, environment, mounts and resources. Pure.

Source: Kubernetes 1.37, `pkg/apis/core/validation`. The containers have their defaults.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.claim_names import use_errors
from drahealth.fakes.cluster.api_server.metadata_validation import label_key_errors, label_name_errors
from drahealth.fakes.cluster.api_server.quantities import parse_quantity
from drahealth.fakes.cluster.api_server.refusals import FieldError
from drahealth.proto.extended_resources import is_extended_resource

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_NAME_LIMIT, _LAST_PORT = 15, 65535
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
_STANDARD = (*_OF_CONTAINERS, "storage", "pods", "services", "secrets", "configmaps", "persistentvolumeclaims")
_ENV_NAME = re.compile(r"[ -<>-~]+")


def container_errors(spec: Object, at: str) -> Iterator[FieldError]:
    """The errors in the containers and init containers of a Pod's spec at this path."""
    names = set[str]()
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    containers = spec.get("containers") or ()
    if not containers:
        yield refusals.required_value(f"{at}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            here, name = f"{at}.{field}[{index}]", container.get("name") or ""
            yield from _errors(container, spec, volumes, here)
            if name and name in names:
                yield refusals.duplicate_value(f"{here}.name", name)
            names.add(name)
        if field == "containers":
            yield from _host_port_errors(containers, f"{at}.containers")


def _errors(container: Object, spec: Object, volumes: Collection[Any], at: str) -> Iterator[FieldError]:
    name, image = container.get("name") or "", container.get("image") or ""
    if not name:
        yield refusals.required_value(f"{at}.name")
    else:
        yield from (refusals.invalid_value(f"{at}.name", name, why) for why in label_name_errors(name))
    if not image:
        yield refusals.required_value(f"{at}.image")
    elif image != image.strip():
        yield refusals.invalid_value(f"{at}.image", image, "must not have leading or trailing whitespace")
    yield from enum_error(container, "terminationMessagePolicy", _MESSAGE_POLICIES, at)
    yield from _port_errors(container.get("ports") or (), f"{at}.ports")
    yield from _env_errors(container.get("env") or (), f"{at}.env")
    yield from _mount_errors(container.get("volumeMounts") or (), volumes, f"{at}.volumeMounts")
    yield from enum_error(container, "imagePullPolicy", _PULL_POLICIES, at)
    yield from _resource_errors(container.get("resources") or {}, f"{at}.resources")
    yield from use_errors(container, spec, at)
    yield from enum_error(container, "restartPolicy", _RESTART_POLICIES, at)


def enum_error(obj: Object, key: str, supported: Sequence[str], at: str) -> Iterator[FieldError]:
    """The error of a field whose value is not one of these; none for a field without a value."""
    if obj.get(key) and obj[key] not in supported:
        yield refusals.unsupported_value(f"{at}.{key}", obj[key], supported)


def _port_errors(ports: Sequence[Object], at: str) -> Iterator[FieldError]:
    names = set[str]()
    for index, port in enumerate(ports):
        here, name = f"{at}[{index}]", port.get("name") or ""
        wrong = list(_port_name_errors(name)) if name else []
        yield from (refusals.invalid_value(f"{here}.name", name, why) for why in wrong)
        if not wrong and name and name in names:
            yield refusals.duplicate_value(f"{here}.name", name)
        names.add(name)
        if not port.get("containerPort"):
            yield refusals.required_value(f"{here}.containerPort")
        for key in ("containerPort", "hostPort"):
            if port.get(key) and not 1 <= port[key] <= _LAST_PORT:
                why = f"must be between 1 and {_LAST_PORT}, inclusive"
                yield refusals.invalid_value(f"{here}.{key}", port[key], why)
        yield from enum_error(port, "protocol", _PROTOCOLS, here)


def _port_name_errors(name: str) -> Iterator[str]:
    if len(name) > _PORT_NAME_LIMIT:
        yield f"must be no more than {_PORT_NAME_LIMIT} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _host_port_errors(containers: Sequence[Object], at: str) -> Iterator[FieldError]:
    seen = set[str]()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            text = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if text in seen:
                yield refusals.duplicate_value(f"{at}[{index}].ports[{place}].hostPort", text)
            seen.add(text)


def _env_errors(env: Sequence[Object], at: str) -> Iterator[FieldError]:
    for index, one in enumerate(env):
        here, name = f"{at}[{index}]", one.get("name") or ""
        if not name:
            yield refusals.required_value(f"{here}.name")
        elif not _ENV_NAME.fullmatch(name):
            why = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            yield refusals.invalid_value(f"{here}.name", name, why)
        if one.get("value") and one.get("valueFrom"):
            yield refusals.invalid_value(f"{here}.valueFrom", "", "may not be specified when `value` is not empty")


def _mount_errors(mounts: Sequence[Object], volumes: Collection[Any], at: str) -> Iterator[FieldError]:
    paths = set[str]()
    for index, mount in enumerate(mounts):
        here, name, path = f"{at}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield refusals.required_value(f"{here}.name")
        if name not in volumes:
            yield refusals.not_in(f"{here}.name", name)
        if not path:
            yield refusals.required_value(f"{here}.mountPath")
        if path in paths:
            yield refusals.invalid_value(f"{here}.mountPath", path, "must be unique")
        paths.add(path)
        part = mount.get("subPath") or ""
        if part.startswith("/"):
            yield refusals.invalid_value(f"{at}.subPath", part, "must be a relative path")
        if ".." in part.split("/"):
            yield refusals.invalid_value(f"{at}.subPath", part, "must not contain '..'")


def _resource_errors(resources: Object, at: str) -> Iterator[FieldError]:
    limits, requests = (_amounts(resources.get(key)) for key in ("limits", "requests"))
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in sorted(amounts.items()):
            yield from _name_errors(name, f"{at}.{key}[{name}]")
            yield from _amount_errors(name, amount, f"{at}.{key}[{name}]")
            if key == "requests":
                yield from _limit_errors(name, amount, limits.get(name), at)


def _amounts(found: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in (found or {}).items()}


def _name_errors(name: str, at: str) -> Iterator[FieldError]:
    wrong = list(label_key_errors(name))
    yield from (refusals.invalid_value(at, name, why) for why in wrong)
    if "/" in name:
        if not wrong and "kubernetes.io/" not in name and not is_extended_resource(name):
            yield refusals.invalid_value(at, name, "doesn't follow extended resource name standard")
        return
    is_large_page = name.startswith("hugepages-")
    if not wrong and name not in _STANDARD and not is_large_page:
        yield refusals.invalid_value(at, name, "must be a standard resource type or fully qualified")
    if name not in _OF_CONTAINERS and not is_large_page:
        yield refusals.invalid_value(at, name, "must be a standard resource for containers")


def _amount_errors(name: str, amount: str, at: str) -> Iterator[FieldError]:
    value = parse_quantity(amount)
    if value < 0:
        yield refusals.invalid_value(at, amount, "must be greater than or equal to 0")
    if is_extended_resource(name) and value != int(value):
        yield refusals.invalid_value(at, amount, "must be an integer")


def _limit_errors(name: str, amount: str, limit: str | None, at: str) -> Iterator[FieldError]:
    """Extended resources are not overcommitted: the request is the limit."""
    is_extended = is_extended_resource(name)
    if limit is None:
        if is_extended:
            yield refusals.required_value(f"{at}.limits", "Limit must be set for non overcommitable resources")
        return
    value, most = parse_quantity(amount), parse_quantity(limit)
    if is_extended and value != most:
        yield refusals.invalid_value(f"{at}.requests", amount, f"must be equal to {name} limit of {limit}")
    elif not is_extended and value > most:
        why = f"must be less than or equal to {name} limit of {limit}"
        yield refusals.invalid_value(f"{at}.requests", amount, why)
