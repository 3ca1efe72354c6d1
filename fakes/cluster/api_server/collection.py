"""What the garbage collector does with an owner that is deleted with its finalizer, and with its dependents. Pure.

Source: k8s.io/kubernetes, `pkg/controller/garbagecollector`.
"""

from drahealth.fakes.cluster.api import Object
from drahealth.fakes.cluster.api_server.deletion import COLLECTOR_FINALIZERS


def policy_of(owner: Object) -> str | None:
    """The propagation policy that the finalizers of a marked object ask for; None if the collector has no work."""
    finalizers = owner["metadata"].get("finalizers") or ()
    if "deletionTimestamp" not in owner["metadata"]:
        return None
    return next((policy for policy, name in COLLECTOR_FINALIZERS.items() if name in finalizers), None)


def blocks(obj: Object, owner: Object) -> bool:
    """Whether the owner waits until the object is removed."""
    references = obj["metadata"].get("ownerReferences") or ()
    return any(_is(reference, owner) and reference.get("blockOwnerDeletion") for reference in references)


def without_owner(obj: Object, owner: Object) -> Object:
    """The object without its references to this owner."""
    kept = [one for one in obj["metadata"].get("ownerReferences") or () if not _is(one, owner)]
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    return {**obj, "metadata": {**metadata, "ownerReferences": kept} if kept else metadata}


def without_finalizer(owner: Object) -> Object:
    """The object without the finalizers of the collector."""
    kept = [one for one in owner["metadata"].get("finalizers") or () if one not in COLLECTOR_FINALIZERS.values()]
    metadata = {key: value for key, value in owner["metadata"].items() if key != "finalizers"}
    return {**owner, "metadata": {**metadata, "finalizers": kept} if kept else metadata}


def _is(reference: Object, owner: Object) -> bool:
    return bool(reference.get("uid") == owner["metadata"]["uid"])
