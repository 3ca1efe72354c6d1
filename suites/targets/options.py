"""The options of the targets. Those of kind alone are in its folder."""

from typing import TYPE_CHECKING, Literal, get_args

from drahealth.manager.releases import FIXABLE, NEXT_NAME, PROFILES, PROFILES_TEXT, VERSIONS_TEXT
from drahealth.suites.targets.option import Option, choice, executable_file, switch
from drahealth.suites.targets.versions import parse_version

if TYPE_CHECKING:
    from drahealth.manager.profile import Profile
    from drahealth.proto.health_apis import HealthApi

ApiServerKind = Literal["memory", "real"]
"""memory: an API server in this process. real: kube-apiserver and etcd on this machine."""


def _profile(name: str) -> "Profile":
    return PROFILES[choice(*PROFILES)(name)]


def _health_api_names() -> tuple[str, ...]:
    from drahealth.proto.health_apis import HEALTH_APIS  # only here: options are listed without it

    return (*HEALTH_APIS, "NodeHealth", "all")


def _health_api(name: str) -> "HealthApi | Literal['all']":
    from drahealth.proto.health_apis import HEALTH_APIS, NODE_HEALTH

    chosen = choice(*_health_api_names())(name)
    return "all" if chosen == "all" else HEALTH_APIS.get(chosen, NODE_HEALTH)


def _ids(text: str) -> tuple[str, ...]:
    given = {part.strip() for part in text.split(",")}
    return tuple(sorted(given - {NEXT_NAME} | (set(FIXABLE) if NEXT_NAME in given else set())))


KUBERNETES = Option(
    "kubernetes",
    "VERSION",
    f"Kubernetes release of the real kubelet or API server, {VERSIONS_TEXT}. `next` with --kubelet FILE: the newest "
    "one, and all open fixes in the kubelet.",
    parse_version,
    ("run", "doctor"),
)
KUBELET = Option(
    "kubelet",
    "FILE",
    "Use this kubelet, for example your own build. --kubernetes selects the control plane, and must "
    "have the same minor release.",
    executable_file,
    ("run", "doctor"),
)
FIXED = Option(
    "fixed",
    "ID,...",
    "Known issues that your own kubelet has fixed, such as B-01: each is a failure if it happens. `next` stands for "
    "all with an open fix in kubernetes/kubernetes. The reference behaves as with the open fixes.",
    _ids,
)
START = Option("start", "", "Also start a real kubelet, and check that its node becomes Ready.", switch, ("doctor",))
PROFILE = Option("profile", "NAME", f"Profile of the reference: {PROFILES_TEXT}.", _profile, choices=lambda: PROFILES)
API_SERVER = Option(
    "api-server",
    "KIND",
    "API server of the reference: memory (default) or real (kube-apiserver and etcd).",
    choice(*get_args(ApiServerKind)),
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
