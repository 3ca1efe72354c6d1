"""Changes of a Pod through its subresources `ephemeralcontainers` and `resize`. Pure functions.

Source: k8s.io/kubernetes, `pkg/registry/core/pod/strategy.go` and `pkg/apis/core/validation`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from drahealth.fakes.cluster.api import PODS, ApiError, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.defaults import qos_class, with_defaults


def _with_ephemeral(old: Object, wanted: Object) -> Object:
    """Only new containers can be added."""
    before = {one["name"]: one for one in old["spec"].get("ephemeralContainers") or ()}
    after = {one.get("name"): one for one in wanted["spec"].get("ephemeralContainers") or ()}
    for name, container in before.items():
        if name not in after:
            raise _forbidden(old, f"existing ephemeral containers {name!r} may not be removed")
        if after[name] != container:
            raise _forbidden(old, f'existing ephemeral containers "{name}" may not be changed')
    return {**old["spec"], "ephemeralContainers": [*after.values()]} if after else old["spec"]


def _forbidden(pod: Object, why: str) -> ApiError:
    return refusals.invalid(PODS, pod["metadata"]["name"], [refusals.forbidden("spec.ephemeralContainers", why)])


def _with_sizes(old: Object, wanted: Object) -> Object:
    """Only the resources of containers change, and not the quality of service."""
    sizes = {one["name"]: one.get("resources") or {} for one in wanted["spec"]["containers"]}
    containers = [{**one, "resources": sizes.get(one["name"], one["resources"])} for one in old["spec"]["containers"]]
    spec = {**old["spec"], "containers": containers}
    if (before := qos_class(old["spec"])) != qos_class(spec):
        why = "Pod QOS Class may not change as a result of resizing"
        error = refusals.invalid_value("spec", before, why)
        raise refusals.invalid(PODS, old["metadata"]["name"], [error])
    return spec


PARTS: Mapping[str, Callable[[Object, Object], Object]] = MappingProxyType(
    {"ephemeralcontainers": _with_ephemeral, "resize": _with_sizes}
)
"""The new spec by the name of the subresource, from the stored Pod and the wanted one."""


def changed_part(part: str, old: Object, wanted: Object) -> Object:
    """The Pod after a change of a subresource. Raises `ApiError` 422 for a change that is not possible."""
    spec = PARTS[part](old, with_defaults(PODS, wanted))
    if spec == old["spec"]:
        return old
    metadata = {**old["metadata"], "generation": old["metadata"].get("generation", 0) + 1}
    return {**old, "metadata": metadata, "spec": spec}
