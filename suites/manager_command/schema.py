"""The schema of manifests: the fields that drahealth reads, by kind.

Other fields of the API have no effect. Fields that the API does not have are rejected (`manifest`). Source: the Pod
API (core/v1) and resource.k8s.io/v1.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from drahealth.fakes.cluster.api import CLAIM_TEMPLATES, CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS, Kind

Name = Annotated[str, Field(min_length=1, max_length=253)]
Names = dict[str, str]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel)


class _Metadata(_Part):
    name: Name
    namespace: Name = "default"
    labels: Names = {}
    annotations: Names = {}
    finalizers: list[str] = []


class _ClaimUse(_Part):
    name: Name
    request: str = ""


class _Resources(_Part):
    claims: list[_ClaimUse] = []
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class _Container(_Part):
    name: Name
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    resources: _Resources = _Resources()
    restart_policy: str = ""


class _PodClaim(_Part):
    name: Name
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class _PodSpec(_Part):
    containers: Annotated[list[_Container], Field(min_length=1)]
    init_containers: list[_Container] = []
    resource_claims: list[_PodClaim] = []
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"
    termination_grace_period_seconds: Annotated[int, Field(ge=0)] = 30
    node_name: str = ""
    node_selector: Names = {}


class _Cel(_Part):
    expression: str = ""


class _Selector(_Part):
    cel: _Cel = _Cel()


class _Toleration(_Part):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class _Exactly(_Part):
    device_class_name: str = ""
    selectors: list[_Selector] = []
    allocation_mode: str = ""
    count: Annotated[int, Field(ge=0, le=2**31)] = 0
    admin_access: bool = False
    tolerations: list[_Toleration] = []


class _SubRequest(_Exactly):
    name: Name


class _Request(_Part):
    name: Name
    exactly: _Exactly | None = None
    first_available: list[_SubRequest] = []


class _Config(_Part):
    requests: list[str] = []


class _Devices(_Part):
    requests: list[_Request] = []
    constraints: list[_Part] = []
    config: list[_Config] = []


class _ClaimSpec(_Part):
    devices: _Devices = _Devices()


class _Result(_Part):
    request: Name
    driver: Name
    pool: Name
    device: Name
    admin_access: bool = False


class _Results(_Part):
    results: Annotated[list[_Result], Field(min_length=1)]
    config: list[_Config] = []


class _FieldTerm(_Part):
    values: list[str] = []


class _NodeTerm(_Part):
    match_fields: list[_FieldTerm] = []


class _NodeSelector(_Part):
    node_selector_terms: list[_NodeTerm] = []


class _Allocation(_Part):
    devices: _Results
    node_selector: _NodeSelector | None = None


class _ClaimStatus(_Part):
    allocation: _Allocation | None = None


class _TemplateSpec(_Part):
    metadata: "_TemplateMetadata | None" = None
    spec: _ClaimSpec


class _TemplateMetadata(_Part):
    labels: Names = {}
    annotations: Names = {}


class _ClassSpec(_Part):
    selectors: list[_Selector] = []
    config: list[_Config] = []


class PodManifest(_Part):
    """A Pod. Its status is ignored."""

    metadata: _Metadata
    spec: _PodSpec


class ClaimManifest(_Part):
    """A ResourceClaim; with `status.allocation` it is already allocated."""

    metadata: _Metadata
    spec: _ClaimSpec
    status: _ClaimStatus = _ClaimStatus()


class TemplateManifest(_Part):
    """A ResourceClaimTemplate."""

    metadata: _Metadata
    spec: _TemplateSpec


class ClassManifest(_Part):
    """A DeviceClass."""

    metadata: _Metadata
    spec: _ClassSpec = _ClassSpec()


class NamespaceManifest(_Part):
    """A Namespace. Its spec and status are ignored."""

    metadata: _Metadata


SCHEMAS: dict[Kind, type[_Part]] = {
    NAMESPACES: NamespaceManifest,
    DEVICE_CLASSES: ClassManifest,
    CLAIM_TEMPLATES: TemplateManifest,
    CLAIMS: ClaimManifest,
    PODS: PodManifest,
}
"""By kind, in the order in which objects are made."""
