"""The claim file of the user: ResourceClaims, and the objects that they need.

The models have what drahealth needs to allocate a claim; the API server checks the rest. Source: resource.k8s.io/v1.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from drahealth.fakes.program.user_files import FileError, documents, validated
from drahealth.proto.quoting import quoted
from drahealth.suites.errors import ConfigurationError

Text = Annotated[str, StringConstraints(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel)


class _Metadata(_Part):
    name: Text
    namespace: Text = "default"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Cel(_Part):
    expression: Text


class _Selector(_Part):
    cel: _Cel


class _Toleration(_Part):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _Wanted(_Part):
    device_class_name: Text
    selectors: list[_Selector] = []
    tolerations: list[_Toleration] = []
    allocation_mode: str = ""
    count: Annotated[int, Field(ge=0)] = 1


class _Alternative(_Wanted):
    name: Text


class _Request(_Part):
    name: Text
    exactly: _Wanted | None = None
    first_available: list[_Alternative] | None = None

    @model_validator(mode="after")
    def _is_of_one_form(self) -> "_Request":
        if bool(self.exactly) == bool(self.first_available):
            raise ValueError("must have either `exactly` or `firstAvailable`")
        return self


class _Requests(_Part):
    requests: Annotated[list[_Request], Field(min_length=1)]


class _ClaimSpec(_Part):
    devices: _Requests


class _Result(_Part):
    request: Text
    driver: Text
    pool: Text
    device: Text


class _Results(_Part):
    results: Annotated[list[_Result], Field(min_length=1)]


class _Allocation(_Part):
    devices: _Results


class _Status(_Part):
    allocation: _Allocation | None = None


class _Claim(_Part):
    api_version: Literal["resource.k8s.io/v1"] = "resource.k8s.io/v1"
    metadata: _Metadata
    spec: _ClaimSpec
    status: _Status | None = None


class _ClassSpec(_Part):
    selectors: list[_Selector] = []


class _DeviceClass(_Part):
    api_version: Literal["resource.k8s.io/v1"] = "resource.k8s.io/v1"
    metadata: _Metadata
    spec: _ClassSpec = _ClassSpec()


class _Namespace(_Part):
    metadata: _Metadata


KINDS: Mapping[str, type[BaseModel]] = {"ResourceClaim": _Claim, "DeviceClass": _DeviceClass, "Namespace": _Namespace}


def read_claim_file(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The objects of a YAML or JSON file.

    Raises ConfigurationError for an invalid object, and unless one of them is a ResourceClaim.
    """
    try:
        found = list(documents(path.read_text(), str(path)))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", "pass another --claim file") from None
    except FileError as error:
        raise ConfigurationError(f"{path}, {error.problems[0]}", "correct the claim file") from None
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}", "correct the claim file") from None
    for document in found:
        one, where = document.data, f"{path}, line {document.line(('kind',))}"
        kind = one.get("kind") if isinstance(one, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            raise ConfigurationError(
                f"{where}: kind must be one of {', '.join(KINDS)}, got {quoted(kind)}",
                "leave out objects of other kinds",
            )
        try:
            validated(KINDS[kind], document)
        except FileError as error:
            raise ConfigurationError(f"{path}, {error.problems[0]}", "correct the claim file") from None
    objects = tuple(document.data for document in found)
    if not any(one["kind"] == "ResourceClaim" for one in objects):
        raise ConfigurationError(f"{path} has no ResourceClaim", "add the claim to prepare")
    return objects
