"""The claim file of the user: ResourceClaims, and the objects that they need."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drahealth.fakes.program.user_files import FileError, documents
from drahealth.suites.errors import ConfigurationError

KINDS = ("ResourceClaim", "DeviceClass", "Namespace")


def read_claim_file(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The objects of a YAML or JSON file. Raises ConfigurationError unless one of them is a ResourceClaim."""
    try:
        found = list(documents(path.read_text(), str(path)))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "pass another --claim file") from None
    except FileError as error:
        raise ConfigurationError(str(error.problems[0]), "correct the claim file") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}", "correct the claim file") from None
    for document in found:
        one, where = document.data, f"{path}, line {document.line(('kind',))}"
        kind = one.get("kind") if isinstance(one, dict) else None
        if kind not in KINDS:
            raise ConfigurationError(
                f"{where}: kind must be one of {', '.join(KINDS)}, got {kind!r}",
                "leave out other objects",
            )
        if not isinstance(one.get("metadata"), dict) or not isinstance(one["metadata"].get("name"), str):
            raise ConfigurationError(f"{where}: metadata.name is missing", "give the object a name")
    objects = tuple(document.data for document in found)
    if not any(one["kind"] == "ResourceClaim" for one in objects):
        raise ConfigurationError(f"{path} has no ResourceClaim", "add the claim to prepare")
    return objects
