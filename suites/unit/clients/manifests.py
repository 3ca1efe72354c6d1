"""Objects that the tests of clients create."""

from typing import Any

from drahealth.fakes.cluster.api import Object

CLASS = "gpu.example.com"
"""The DeviceClass that `drahealth up` creates, and the name of its driver."""


def pod(name: str = "train", **spec: Any) -> Object:
    """A Pod with one container, and with a label `app` that has its name."""
    metadata = {"name": name, "labels": {"app": name}}
    containers = [{"name": "main", "image": "training"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def claim(name: str = "gpu") -> Object:
    """A claim for one GPU."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
    return {**head, "spec": {"devices": {"requests": requests}}}


def pod_with_claim(name: str = "train") -> Object:
    """A Pod with the claim `gpu`."""
    containers = [{"name": "main", "image": "training", "resources": {"claims": [{"name": "gpu"}]}}]
    return pod(name, containers=containers, resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])


def config_map(name: str = "settings", **data: str) -> Object:
    """A ConfigMap, with a label `app` that has its name."""
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def budget(app: str, least: int) -> Object:
    """A PodDisruptionBudget for the Pods with this label `app`."""
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec}


def eviction(name: str) -> Object:
    """The eviction of a Pod."""
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def binding(name: str, node: str) -> Object:
    """The binding of a Pod to a node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def definition(group: str) -> Object:
    """The definition of the custom resource Rack of a group."""
    spec_schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec_schema, "status": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Rack", "plural": "racks", "singular": "rack", "listKind": "RackList"}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [{**version, "subresources": {"status": {}}}],
    }
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": f"racks.{group}"}, "spec": spec}
