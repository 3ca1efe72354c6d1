"""Options that several targets declare."""

from typing import TYPE_CHECKING, Literal

from drahealth.manager.releases import VERSIONS_TEXT
from drahealth.suites.targets.option import Option, choice
from drahealth.suites.targets.versions import parse_version

if TYPE_CHECKING:
    from drahealth.proto.health_apis import HealthApi


def _health_api_names() -> tuple[str, ...]:
    from drahealth.proto.health_apis import HEALTH_APIS  # only here: options are listed without it

    return (*HEALTH_APIS, "NodeHealth", "all")


def _health_api(name: str) -> "HealthApi | Literal['all']":
    from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH

    chosen = choice(*_health_api_names())(name)
    return "all" if chosen == "all" else HEALTH_APIS.get(chosen, NODE_HEALTH)


KUBERNETES = Option(
    "kubernetes",
    "VERSION",
    f"Kubernetes release of the real kubelet or API server, {VERSIONS_TEXT}.",
    parse_version,
    ("run", "doctor"),
)
DRIVER = Option(
    "driver",
    "WHERE",
    "Run the fake driver in the process of drahealth (inline, default), or in its own process (process).",
    choice("inline", "process"),
    choices=lambda: ("inline", "process"),
)
HEALTH_API = Option(
    "health-api",
    "NAME",
    "Health API that drivers serve: v1.DRAResourceHealth, v1alpha1.DRAResourceHealth, "
    "v1alpha1.NodeHealth/WatchResources or v1alpha1.NodeHealth/WatchDevicesStatus. `NodeHealth` is short for "
    "v1alpha1.NodeHealth/WatchResources. With `all`, each scenario runs over each API that the kubelet supports.",
    _health_api,
    choices=_health_api_names,
)


def place_of(driver: str) -> str:
    """What a target's title says of the fake driver, for a value of `--driver`."""
    return ", the fake driver in a process of its own" if driver == "process" else ""
