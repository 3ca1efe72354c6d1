"""Commands to the nodes of a kind cluster: their scripts, and the files that they write."""

import asyncio
import contextlib
import io
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from functools import partial
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from drahealth.fakes.cluster.api import NODES, PODS, ApiError, Kind
from drahealth.fakes.cluster.kube_client import KubeClient
from drahealth.fakes.waiting import poll
from drahealth.proto.events import StatusWritten
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.audit import POLICY, status_write
from drahealth.suites.targets.engine import Engine
from drahealth.suites.targets.node_readiness import speaks_since, takes_pods
from drahealth.suites.targets.versions import enabled

# The content of node files with feature gates or an audit log, and the gates that a component reports. Pure text.
#
# The API server of a kind node is a static pod. The hash of its manifest is the uid of the pod, so a changed manifest
# is another pod. The kubelet must remove the old one first, which takes half a minute or more. If the original
# manifest comes back, the remains of its former pod block it. So the changed manifest names the original uid: then it
# is the same pod with another command, and the kubelet restarts only its container.

API_SERVER = "kube-apiserver"
API_SERVER_MANIFEST = f"/etc/kubernetes/manifests/{API_SERVER}.yaml"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"

AUDIT_POLICY = "/etc/kubernetes/pki/drahealth-audit-policy.json"
"""The audit policy, in a folder that the pod of the API server mounts."""

_FLAG = "--feature-gates"
_AUDIT_FLAGS = (
    f"--audit-policy-file={AUDIT_POLICY}",
    "--audit-log-path=-",
    "--audit-log-format=json",
    "--audit-log-mode=blocking",
)


def api_server_manifest(text: str, gates: Mapping[str, bool], uid: str) -> str:
    """The manifest with these gates added; `uid` is that of its pod. Raises HarnessError if it is not a manifest."""
    manifest, container, arguments = _api_server(text)
    for part in (container.get("command"), container.get("args")):
        gates = {**_taken(part), **gates} if part else gates
    arguments.append(f"{_FLAG}={','.join(f'{name}={str(on).lower()}' for name, on in gates.items())}")
    manifest["metadata"].setdefault("uid", uid)
    return _text(manifest)


def audited_manifest(text: str, uid: str) -> str:
    """The manifest with an audit log on standard output, which replaces another one; `uid` is that of its pod.

    The policy is in the file `AUDIT_POLICY`. Raises HarnessError if it is not a manifest.
    """
    manifest, _, arguments = _api_server(text)
    arguments.extend(_AUDIT_FLAGS)  # the last value of a flag is valid
    manifest["metadata"].setdefault("uid", uid)
    return _text(manifest)


def is_audited(manifest: str) -> bool:
    """Whether it is from `audited_manifest`."""
    return AUDIT_POLICY in manifest


def kubelet_config(text: str, gates: Mapping[str, bool]) -> str:
    """The configuration of the kubelet with these gates added. Raises HarnessError if it is not one."""
    config = _mapping(text, KUBELET_CONFIG)
    if config.get("kind") != "KubeletConfiguration":
        raise _strange(KUBELET_CONFIG, "it is not a KubeletConfiguration")
    if config.get("featureGates") is None:
        config["featureGates"] = {}
    config["featureGates"].update(gates)
    return _text(config)


def _taken(arguments: MutableSequence[str]) -> dict[str, bool]:
    """The gates that the flag sets, in both its spellings. Removes the flag: the added one repeats them.

    Leaves out the name of a component before a gate: `kube:` is the default, and there is no other one here.
    """
    words, found = list(arguments), []
    arguments.clear()
    while words:
        word = words.pop(0)
        if word == _FLAG and words:
            found.append(words.pop(0))
        elif word.startswith(f"{_FLAG}="):
            found.append(word.partition("=")[2])
        else:
            arguments.append(word)
    pairs = (pair.strip().partition("=") for text in found for pair in text.split(",") if pair.strip())
    return {name.rpartition(":")[2]: value.strip().lower() in ("true", "t", "1") for name, _, value in pairs}


def _api_server(text: str) -> tuple[MutableMapping[str, Any], Mapping[str, Any], MutableSequence[str]]:
    """The manifest, its container of the API server, and the list that ends the flags of that."""
    manifest = _mapping(text, API_SERVER_MANIFEST)
    try:
        container = next(one for one in manifest["spec"]["containers"] if one["name"] == API_SERVER)
        arguments = container["args" if container.get("args") else "command"]
        manifest["metadata"]
    except (KeyError, TypeError, StopIteration):
        raise _strange(API_SERVER_MANIFEST, f"it has no container {API_SERVER} with a command") from None
    return manifest, container, arguments


def _mapping(text: str, path: str) -> MutableMapping[str, Any]:
    try:
        found = _yaml().load(text)
    except YAMLError as error:
        raise _strange(path, str(error).splitlines()[0]) from None
    if not isinstance(found, MutableMapping):
        raise _strange(path, "it is not a mapping")
    return found


def _text(value: Any) -> str:
    stream = io.StringIO()
    _yaml().dump(value, stream)
    return stream.getvalue()


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 100_000  # no line is broken
    return yaml


def _strange(path: str, why: str) -> HarnessError:
    return HarnessError(f"kubeadm did not write {path} of the node: {why}", "use a cluster that kind made")


# POSIX shell scripts that run in the container of a node. Times are Unix seconds of the node's clock.
#
# `systemctl restart` starts a killed kubelet: `start` would wait for the RestartSec of the unit. Files change while
# no kubelet runs, so no kubelet reads half a change. Copies are kept outside the manifests folder.
#
# While the API server is stopped, the scheduler and the controllers are paused (SIGSTOP). Without it they would exit,
# and the kubelet would wait 10 s or more before it restarts them.

STATE = "/etc/kubernetes/drahealth"
"""It holds `staged`, new files; `original`, the files before the first change; and `away`, the manifest of the API
server while that is stopped."""
LEADERS = ("kube-scheduler", "kube-controller-manager")
"""The components that watch the API server and have a Lease of the same name."""
STAGED_MANIFEST = f"{STATE}/staged/{API_SERVER}.yaml"
STAGED_CONFIG = f"{STATE}/staged/kubelet.yaml"


def _each(signal: str) -> str:
    return "\n".join(f"signal {signal} {name}" for name in LEADERS)


_PARTS = f"""
set -eu
end_kubelet() {{
  pid=$(systemctl show -p MainPID --value kubelet)
  [ "${{pid:-0}}" = 0 ] && return
  kill -9 "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}}
signal() {{
  for process in /proc/[0-9]*; do
    name=$(tr '\\0' '\\n' 2>/dev/null < "$process/cmdline" | head -n 1)
    if [ "${{name##*/}}" = "$2" ]; then kill -s "$1" "${{process#/proc/}}" 2>/dev/null || true; fi
  done
  return 0
}}
end_api_server() {{
{_each("STOP")}
  signal KILL {API_SERVER}
}}
start_kubelet() {{
  date +%s.%N
  systemctl restart kubelet
}}
put() {{
  [ -e "{STATE}/staged/$1" ] || return 1
  if ! [ -e "{STATE}/original/$1" ]; then
    cp -p "$2" "{STATE}/original/.$1"
    mv "{STATE}/original/.$1" "{STATE}/original/$1"
  fi
  mv "{STATE}/staged/$1" "$2"
}}
give() {{
  [ -e "{STATE}/away/{API_SERVER}.yaml" ] || return 1
  mv "{STATE}/away/{API_SERVER}.yaml" {API_SERVER_MANIFEST}
}}
back() {{
  [ -e "{STATE}/original/$1" ] || return 1
  mv "{STATE}/original/$1" "$2"
}}
"""

RESTART = f"{_PARTS}end_kubelet\nstart_kubelet\n"
"""Kills the kubelet and starts it; prints the time of the start."""

STOP = f"{_PARTS}end_kubelet\nsystemctl stop kubelet\n"
"""Kills the kubelet, and keeps its unit from starting it again."""

STOP_ORDERLY = "systemctl stop kubelet\n"
"""Lets the kubelet stop, as before an upgrade of it."""

START = f"{_PARTS}systemctl is-active --quiet kubelet || start_kubelet\n"
"""Starts a stopped kubelet and prints the time; prints nothing if it runs."""

APPLY = f"""{_PARTS}
mkdir -p {STATE}/original
end_kubelet
if put {API_SERVER}.yaml {API_SERVER_MANIFEST}; then end_api_server; fi
put kubelet.yaml {KUBELET_CONFIG} || true
start_kubelet
"""
"""Installs the staged files, kills the components that read the old ones, starts the kubelet, and prints the time."""

END_LEADERS = f"{_PARTS}\n{_each('KILL')}\n"
"""Kills the paused components; the kubelet restarts them."""

TAKE_API_SERVER = f"""{_PARTS}
mkdir -p {STATE}/away
if [ -e {API_SERVER_MANIFEST} ]; then mv {API_SERVER_MANIFEST} {STATE}/away/{API_SERVER}.yaml; fi
for _ in 1 2 3 4 5 6 7 8 9 10; do end_api_server; sleep 0.1; done
"""
"""Removes the manifest of the API server and kills it, until the kubelet has noticed the missing manifest."""

GIVE_API_SERVER = f"""{_PARTS}
if give; then echo given; fi
"""
"""Restores the manifest and prints that; prints nothing if it was not removed."""

RESTORE = f"""{_PARTS}
rm -rf {STATE}/staged
give || true
if [ -e {STATE}/original/{API_SERVER}.yaml ] || [ -e {STATE}/original/kubelet.yaml ]; then
  end_kubelet
  if back {API_SERVER}.yaml {API_SERVER_MANIFEST}; then end_api_server; fi
  back kubelet.yaml {KUBELET_CONFIG} || true
  start_kubelet
else
  systemctl is-active --quiet kubelet || start_kubelet
fi
rm -rf {STATE} {AUDIT_POLICY}
"""
"""Restores the original files and starts a stopped kubelet. Prints the time of the start, or nothing without a
change."""

WRITE = """set -eu
umask 077
mkdir -p "$(dirname "$1")"
cat > "$1.new"
mv "$1.new" "$1"
"""
"""Writes standard input to the path that is its argument, atomically. No kubelet may read that folder."""

KUBELET_LOG = "journalctl -u kubelet -n 20 --no-pager -o cat 2>&1"
API_SERVER_LOG = f"""
newest=$(ls -t /var/log/pods/kube-system_{API_SERVER}-*/{API_SERVER}/*.log 2>/dev/null | head -n 1)
[ -n "$newest" ] && tail -n 20 "$newest" | cut -d ' ' -f 4-
"""

AUDIT_LOG = f"""
for log in /var/log/pods/kube-system_{API_SERVER}-*/{API_SERVER}/*.log*; do
  if [ -e "$log" ]; then cat "$log"; fi
done | awk -v wanted="\\"namespace\\":\\"$1\\"" '
$2 != "stdout" {{ next }}
{{ whole = begun substr($0, index($0, " " $3 " ") + 3) }}
$3 == "P" {{ begun = whole; next }}
{{ begun = ""; if (index(whole, wanted)) print whole }}'
"""
"""Prints the entries of the audit log that name the namespace that is its argument.

The log is the standard output of the API server. The container runtime splits long lines: `P` marks a part that
continues in the next line. The kubelet keeps the logs of the last two containers.
"""


# Commands to the nodes of a kind cluster: restart kubelets, set feature gates, stop and audit the API server.
#
# Kubelets and the API server are killed, as in a crash. A graceful end of the API server would take up to a minute.

LIMIT = 90.0
"""Seconds for a component to be ready again; it takes 2 to 6."""

_INTERVAL = 0.05
_CALL = 5.0
"""Seconds for one request to a server that may be starting or stopping."""
_LEASES = Kind("Lease", "leases", "coordination.k8s.io/v1", namespaced=True)
_LEADERS = LEADERS
_API_SERVER = "/metrics"
_CONFIG_HASH = "kubernetes.io/config.hash"

Condition = Callable[[], Awaitable[bool]]


class KindNodes:
    """The nodes by the names of their containers, which are also those of the Node objects. One change at a time."""

    def __init__(self, engine: Engine, control_plane: str, nodes: Sequence[str], client: KubeClient) -> None:
        self._engine = engine
        self._control_plane = control_plane
        self._nodes = list(nodes)
        self._client = client

    async def restart_kubelet(self, node: str) -> None:
        """Kills the kubelet, starts it, and returns when the node is Ready. Raises HarnessError."""
        since = float(await self._sh(node, RESTART))
        await self._until_served(node, since)

    async def stop_kubelet(self, node: str, *, orderly: bool = False) -> None:
        """Kills the kubelet, or lets it stop, and keeps it stopped until `start_kubelet`."""
        await self._sh(node, STOP_ORDERLY if orderly else STOP)

    async def start_kubelet(self, node: str) -> None:
        """Starts a stopped kubelet and returns when the node is Ready. Raises HarnessError."""
        if since := await self._sh(node, START):
            await self._until_served(node, float(since))

    async def set_gates(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool] | None = None) -> None:
        """Adds these gates to those of the API server and of all kubelets, and restarts them.

        `kubelet` are the gates of the kubelets, if they differ from those of the API server. A component that has its
        gates is not restarted. Raises ConfigurationError for a gate that the API server does not know.
        """
        kubelet = gates if kubelet is None else kubelet
        with _told("The feature gates cannot be set"):
            if await self._all_have(gates, kubelet):
                return
            await self._stage(gates, kubelet)
            await self._change(APPLY, self._nodes)
        has = partial(self._has, gates, _API_SERVER)
        await self._until(has, "the API server to have its gates", self._control_plane, api=True)
        for node in self._nodes:
            await self._until(partial(self._has, kubelet, _kubelet(node)), f"the kubelet of {node} to have them", node)

    async def audit_status_writes(self) -> None:
        """Adds an audit log of the writes of Pod statuses to the API server, and restarts it unless it has that log.

        Raises HarnessError.
        """
        manifest = await self.read(self._control_plane, API_SERVER_MANIFEST)
        if is_audited(manifest):
            return
        with _told("The audit log of the API server cannot be set up"):
            text = audited_manifest(manifest, await self._static_pod_uid())
            await self.write(self._control_plane, AUDIT_POLICY, json.dumps(POLICY))
            await self.write(self._control_plane, STAGED_MANIFEST, text)
            await self._change(APPLY, [self._control_plane])

    async def status_writes(self, namespace: str) -> list[StatusWritten]:
        """The writes of Pod statuses in this namespace by kubelets, as far as the audit log has them."""
        entries = await self._sh(self._control_plane, AUDIT_LOG, namespace)
        found: list[StatusWritten] = []
        for line in entries.splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # the API server is writing it
                found += status_write(json.loads(line))
        return found

    async def stop_api_server(self) -> None:
        """Removes its manifest and kills it. Pauses the scheduler and the controllers until it starts."""
        await self._sh(self._control_plane, TAKE_API_SERVER)

    async def start_api_server(self) -> None:
        """Restores the manifest and returns when API server, scheduler and controllers run; nothing if it was not
        stopped."""
        if not await self._sh(self._control_plane, GIVE_API_SERVER):
            return
        await self._until(self._ready, "the API server to be ready", self._control_plane, api=True)
        with _told("The scheduler and the controllers cannot be restarted"):
            await self._restart_leaders()

    async def restore(self) -> None:
        """Undoes changes of gates and of the audit log, by any process: restores the original files of the nodes."""
        with _told("The changes on the nodes cannot be undone"):
            await self._change(RESTORE, self._nodes)

    async def read(self, node: str, path: str) -> str:
        """The content of a file."""
        return await self._engine.run("exec", node, "cat", path)

    async def write(self, node: str, path: str, text: str) -> None:
        """Writes a file that only root can read, and the folders above it."""
        await self._sh(node, WRITE, path, stdin=text.encode())

    async def log_tail(self, node: str, *, api: bool = False) -> str:
        """The last lines of the node's kubelet, or of its API server."""
        try:
            return await self._sh(node, API_SERVER_LOG if api else KUBELET_LOG)
        except HarnessError as error:
            return f"(no log: {error})"

    async def _stage(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool]) -> None:
        uid = await self._static_pod_uid()
        manifest = await self.read(self._control_plane, API_SERVER_MANIFEST)
        text = api_server_manifest(manifest, gates, uid)
        await self.write(self._control_plane, STAGED_MANIFEST, text)
        for node in self._nodes:
            config = await self.read(node, KUBELET_CONFIG)
            await self.write(node, STAGED_CONFIG, kubelet_config(config, kubelet))

    async def _static_pod_uid(self) -> str:
        """The uid of the API server's static pod in the kubelet; its mirror pod in the API has another one."""
        pod = await self._client.get(PODS, f"{API_SERVER}-{self._control_plane}", "kube-system")
        try:
            return str(pod["metadata"]["annotations"][_CONFIG_HASH])
        except KeyError:
            raise HarnessError(
                f"the API server of {self._control_plane} is not a static pod", "use a cluster that kind made"
            ) from None

    async def _change(self, script: str, nodes: Sequence[str]) -> None:
        """Runs it on these nodes, and waits until those with a restarted component are Ready."""
        done = await asyncio.gather(*(self._sh(node, script) for node in nodes))
        changed = {node: float(since) for node, since in zip(nodes, done, strict=True) if since}
        for node, since in changed.items():
            await self._until_served(node, since)
        if self._control_plane in changed:
            await self._restart_leaders()

    async def _restart_leaders(self) -> None:
        """Restarts the scheduler and the controllers: each failed watch doubled the time until their next attempt, up
        to a minute. Without the removal of their leases they would wait 15 s."""
        leases = await self._client.list(_LEASES, "kube-system")
        old = {x["metadata"]["name"]: x["metadata"]["uid"] for x in leases if x["metadata"]["name"] in _LEADERS}
        await self._sh(self._control_plane, END_LEADERS)
        for name in old:
            await self._client.delete(_LEASES, name, "kube-system")
        await self._until(
            partial(self._elected, old), "the scheduler and the controllers to go on", self._control_plane, api=True
        )

    async def _until_served(self, node: str, since: float) -> None:
        await self._until(self._ready, "the API server to be ready", self._control_plane, api=True)
        await self._until(partial(self._served, node, since), f"the kubelet of {node} to be back", node)

    async def _ready(self) -> bool:
        return await self._client.connection.text("/readyz") == "ok"

    async def _served(self, node: str, since: float) -> bool:
        found = await self._client.get(NODES, node)
        lease = await self._client.get(_LEASES, node, "kube-node-lease")
        return takes_pods(found) and speaks_since(found, lease, since)

    async def _elected(self, old: Mapping[str, str]) -> bool:
        """Whether all of these have renewed their leases."""
        leases = await self._client.list(_LEASES, "kube-system")
        now = {x["metadata"]["name"]: x["metadata"]["uid"] for x in leases}
        return all(now.get(name, uid) != uid for name, uid in old.items())

    async def _has(self, gates: Mapping[str, bool], path: str) -> bool:
        return gates.items() <= enabled(await self._client.connection.text(path)).items()

    async def _all_have(self, gates: Mapping[str, bool], kubelet: Mapping[str, bool]) -> bool:
        known = enabled(await self._client.connection.text(_API_SERVER))
        if unknown := ", ".join(sorted(gates.keys() - known.keys())):
            raise ConfigurationError(f"unknown feature gate of the API server: {unknown}", "use a gate of its release")
        wanted = {_API_SERVER: gates, **dict.fromkeys(map(_kubelet, self._nodes), kubelet)}
        return all([await self._has(these, path) for path, these in wanted.items()])

    async def _until(self, condition: Condition, what: str, node: str, *, api: bool = False) -> None:
        if not await poll(partial(_holds, condition), _INTERVAL, LIMIT):
            failure = HarnessError(
                f"timed out after {LIMIT:g} s waiting for {what}",
                "see the log below; check whether the machine is busy",
            )
            if api:
                failure.add_note(f"The last lines of {API_SERVER}:\n{await self.log_tail(node, api=True)}")
            # The kubelet runs the API server, so a fault of the kubelet may keep the API server stopped.
            failure.add_note(f"The last lines of the kubelet on {node}:\n{await self.log_tail(node)}")
            raise failure

    async def _sh(self, node: str, script: str, *arguments: str, stdin: bytes | None = None) -> str:
        options = ["-i"] if stdin is not None else []
        return (
            await self._engine.run("exec", *options, node, "sh", "-c", script, "sh", *arguments, stdin=stdin)
        ).strip()


async def _holds(condition: Condition) -> bool:
    """Also False while the server does not answer or is not ready."""
    with contextlib.suppress(ApiError, TimeoutError):
        async with asyncio.timeout(_CALL):
            return await condition()
    return False


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        raise HarnessError(f"{what}: {error}", "check that the cluster works") from error


def _kubelet(node: str) -> str:
    return f"/api/v1/nodes/{node}/proxy/metrics"
