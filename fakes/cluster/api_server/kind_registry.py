"""The kinds that one API server serves: those of `served_kinds`, and others, whose objects are plain JSON.

Objects of other kinds have no types, defaults or validation, and all versions of a kind have the same fields.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from drahealth.fakes.cluster.api import Kind, Object
from drahealth.fakes.cluster.api_server import refusals
from drahealth.fakes.cluster.api_server.served_kinds import SERVED, ServedKind
from drahealth.fakes.cluster.other_kinds import BUDGETS, CRDS, DATA_KINDS, OTHER_KINDS, is_of_kubernetes, plural_of
from drahealth.fakes.hints import near


class KindRegistry:
    """The served kinds, each in all of its versions. Budgets, definitions and `DATA_KINDS` are always among them."""

    def __init__(self) -> None:
        self._served = {served.kind: served for served in SERVED}
        self._names: dict[tuple[str, str], Object] = {}
        for kind in (CRDS, BUDGETS, *DATA_KINDS):
            self.add([kind])

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(self._served.values())

    def __getitem__(self, kind: Kind) -> ServedKind:
        return self._served[kind]

    @property
    def namespaced(self) -> list[Kind]:
        """The stored kinds that have a namespace."""
        return [kind for kind in self.stored if kind.namespaced]

    @property
    def stored(self) -> list[Kind]:
        """The kinds in the version in which they are stored."""
        return [served.stored for served in self if served.kind == served.stored]

    def at(self, api_version: str, plural: str) -> Kind | None:
        """The kind at this place of the API; None if it is not served."""
        places = (kind for kind in self._served if (kind.api_version, kind.plural) == (api_version, plural))
        return next(places, None)

    def names_of(self, kind: Kind) -> Object:
        """The names in the definition of a custom resource; empty for other kinds."""
        return self._names.get((kind.api_version.rpartition("/")[0], kind.kind), {})

    def add(self, kinds: Sequence[Kind], names: Object | None = None) -> None:
        """Serves versions of one kind; the first is the stored one. `names` are those of its definition."""
        for kind in kinds:
            if names:
                self._names[kind.api_version.rpartition("/")[0], kind.kind] = names
            self._served.setdefault(kind, ServedKind(kind, kinds[0]))

    def remove(self, kinds: Sequence[Kind]) -> None:
        """Serves these kinds no longer."""
        for kind in kinds:
            self._served.pop(kind, None)

    def kind_of(self, obj: Object) -> Kind:
        """The kind of an object, which is served from now on.

        Kinds of Kubernetes must be known. A kind of another group without a CustomResourceDefinition has its usual
        plural, and is namespaced if the object has a namespace. Raises `ApiError` 404.
        """
        version, name = str(obj.get("apiVersion")), str(obj.get("kind"))
        if found := next((one for one in self._served if (one.api_version, one.kind) == (version, name)), None):
            return found
        known = next((one for one in OTHER_KINDS if (one.api_version, one.kind) == (version, name)), None)
        if known is None and is_of_kubernetes(version):
            raise refusals.unknown_kind(version, name, near(name, kinds_in(version)))
        namespaced = "namespace" in obj.get("metadata", {})
        kind = known or Kind(name, plural_of(name), version, namespaced, has_status="status" in obj)
        if other := next((one.stored for one in self if _same(one.kind, kind)), None):
            kind = replace(other, api_version=version)
        self.add([other or kind, kind])
        return kind


def kinds_in(api_version: str) -> list[str]:
    """The names of Kubernetes' kinds in an apiVersion."""
    served = (one.kind for one in SERVED)
    return sorted({one.kind for one in (*served, *OTHER_KINDS) if one.api_version == api_version})


def _same(one: Kind, other: Kind) -> bool:
    """Whether these are versions of one kind."""
    groups = {kind.api_version.rpartition("/")[0] for kind in (one, other)}
    return len(groups) == 1 and one.kind == other.kind
