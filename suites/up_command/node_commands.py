"""The commands for a running node: `status`, `down`, `logs`, `load` and `kubectl`."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from drahealth.fakes.control.socket_path import DEFAULT_NODE
from drahealth.fakes.hints import near
from drahealth.fakes.program.usage import as_called, command_name
from drahealth.fakes.program.user_files import FileError, documents
from drahealth.manager.releases import DEFAULT_VERSION
from drahealth.proto.quoting import one_line
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.targets.kubelet.ensure import ensure_kubectl
from drahealth.suites.targets.progress import StagePrinter
from drahealth.suites.up_command.node_folder import (
    LOOK,
    NodeFolder,
    NodeState,
    ProcessIdentity,
    joined_folders,
    read_state,
    ready,
    write_state,
)

# `drahealth down`: ends the processes of a node, and removes its folder.

_PATIENCE = 60.0
"""Seconds for the supervisor to end after SIGTERM, before it is killed. Its drivers delete their ResourceSlices."""
_KILLED = 20.0
"""Seconds for the kernel to end all processes."""


def down(folder: NodeFolder, *, keep: bool) -> list[str]:
    """Returns the names of the ended nodes when no process of them is left: of one, or of all for a first node.

    Removes their folders, unless `keep`. Raises HarnessError.
    """
    state = _state(folder)
    if state and state.first and state.process and state.process.runs():
        _leave(folder, state, state.process, keep=keep)
        return [folder.name]
    joined = joined_folders(folder)
    for each in (folder, *joined):
        lock = _ended(each, state.process if state and each is folder else None)
        try:
            if not keep:
                each.remove()
        finally:
            os.close(lock)
    return [each.name for each in (folder, *joined)]


def _leave(folder: NodeFolder, state: NodeState, supervisor: ProcessIdentity, *, keep: bool) -> None:
    """Ends one node of several. Without `keep`, also its Node object is removed."""
    write_state(folder.path, state.at("leaving"))
    supervisor.signal(LOOK)
    lock = folder.lock(_PATIENCE)
    if lock is None:
        raise HarnessError(
            f"node {folder.name} does not end", f"`drahealth down --name {state.first}` ends all nodes of {state.first}"
        )
    try:
        if not keep:
            if supervisor.runs():
                asyncio.run(_delete_node(folder))
            folder.remove()
    finally:
        os.close(lock)


async def _delete_node(folder: NodeFolder) -> None:
    from drahealth.fakes.cluster.api import NODES, ApiError
    from drahealth.fakes.cluster.kube_client import KubeClient

    client = await KubeClient.from_kubeconfig(folder.kubeconfig)
    try:
        await client.delete(NODES, folder.name)
    except ApiError as error:
        if error.status != 404:
            raise HarnessError(f"the Node {folder.name} cannot be deleted: {error}") from None
    finally:
        await client.close()


def _ended(folder: NodeFolder, process: ProcessIdentity | None) -> int:
    """The lock of the folder, after all processes have ended."""
    for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _KILLED)):
        if process:
            process.signal(number)
        if (lock := folder.lock(patience)) is not None:
            return lock
    raise HarnessError(f"the processes of node {folder.name} do not end", f"they hold the lock {folder.path / 'lock'}")


def _state(folder: NodeFolder) -> NodeState | None:
    """None for a state that cannot be read, which is no reason to keep the folder."""
    try:
        return read_state(folder.path)
    except ConfigurationError:
        return None


# `drahealth load`: applies manifests to a node, without kubectl.

_MANAGER = "drahealth"
_STRICT = (("fieldValidation", "Strict"),)
"""Rejects unknown fields, as kubectl does."""
_STDIN = "-"
_NEEDED = {"apiVersion": str, "kind": str, "metadata": dict}


def load(folder: NodeFolder, files: Sequence[Path]) -> Iterator[str]:
    """Applies all objects in their order, on the server. Returns their names, each as soon as it is applied.

    Nothing is applied if a file is not YAML with objects. Raises ConfigurationError for a file or an object that is
    rejected, HarnessError if the API server does not answer.
    """
    found = [found for path in files for found in _objects(path)]
    return _apply(folder, found)


def _objects(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its file and line."""
    try:
        text = sys.stdin.read() if str(path) == _STDIN else path.read_text(encoding="utf-8")
        found = [(f"{path}, line {document.line(())}", document.data) for document in documents(text, str(path))]
    except FileError as error:
        raise ConfigurationError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    for where, obj in found:
        if not isinstance(obj, dict) or any(not isinstance(obj.get(key), kind) for key, kind in _NEEDED.items()):
            raise ConfigurationError(f"{where}: must be a Kubernetes object", f"it needs {', '.join(_NEEDED)}")
    return found


def _apply(folder: NodeFolder, found: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    from kubernetes.client import ApiClient
    from kubernetes.config import new_client_from_config
    from kubernetes.dynamic import DynamicClient
    from kubernetes.dynamic.exceptions import DynamicApiError, ResourceNotFoundError
    from urllib3.exceptions import HTTPError

    api: ApiClient = new_client_from_config(str(folder.kubeconfig))
    try:
        client = DynamicClient(api, cache_file=str(folder.path / "discovery.json"))
        for where, obj in found:
            metadata = obj["metadata"]
            name, namespace = f"{obj['kind']} {metadata.get('name', '')}", metadata.get("namespace", "default")
            try:
                resource = client.resources.get(api_version=obj["apiVersion"], kind=obj["kind"])
                client.server_side_apply(
                    resource,
                    body=obj,
                    namespace=namespace if resource.namespaced else None,
                    field_manager=_MANAGER,
                    force_conflicts=True,
                    query_params=list(_STRICT),
                )
            except ResourceNotFoundError:
                raise ConfigurationError(
                    f"{where}: the API server has no kind {obj['kind']} in {obj['apiVersion']}",
                    "see `kubectl api-resources`",
                ) from None
            except (DynamicApiError, ValueError) as error:
                raise ConfigurationError(f"{where}: {name} was rejected: {_reason(error)}") from None
            yield name
    except HTTPError:  # it says which function of a library failed
        raise HarnessError(f"node {folder.name} does not answer", "see `drahealth status`") from None
    finally:
        api.close()


def _reason(error: Exception) -> str:
    """The message of a Status object, if the error has one."""
    try:
        return one_line(json.loads(getattr(error, "body", ""))["message"], 2000)
    except (ValueError, TypeError, KeyError):
        return one_line(str(error), 2000)


# `drahealth kubectl` and `drahealth logs`: kubectl and tail(1) take the place of this process.

_NAME = "--name"


def run_kubectl(arguments: Sequence[str]) -> None:
    """Replaces this process by kubectl. Raises HarnessError."""
    name, rest = node_and_rest(arguments)
    folder, state = ready(name)
    program = ensure_kubectl(state.kubernetes or DEFAULT_VERSION, StagePrinter(Console(stderr=True, highlight=False)))
    os.execve(program, ["kubectl", *rest], {**os.environ, "KUBECONFIG": str(folder.kubeconfig)})


def node_and_rest(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The name of the node, and the arguments of kubectl. Only a `--name` before these is ours.

    Raises ConfigurationError if the name is missing.
    """
    match list(arguments):
        case [first, *rest] if first.startswith(f"{_NAME}="):
            return first.partition("=")[2], rest
        case ["--name", name, *rest]:
            return name, rest
        case ["--name"]:
            raise ConfigurationError("--name needs the name of a node", "for example --name drahealth")
    return DEFAULT_NODE, list(arguments)


def show_log(folder: NodeFolder, component: str | None, *, follow: bool, lines: int | None) -> None:
    """Replaces this process by tail; without a component it prints their names. Raises HarnessError."""
    names = sorted(path.stem for path in folder.logs.glob("*.log"))
    if component is None:
        print("\n".join(names))  # noqa: T201
        return
    if component not in names:
        raise ConfigurationError(f"node {folder.name} has no log of {component!r}", near(component, names))
    program = shutil.which("tail")
    if program is None:
        raise HarnessError("the program tail is missing", "install coreutils")
    log = str(folder.logs / f"{component}.log")
    os.execv(program, ["tail", "-n", "+1" if lines is None else str(lines), *(["-F"] if follow else []), log])


# What the commands for nodes print.

_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Status:
    """A node as `drahealth status` shows it; `memory` is the resident memory of all its processes in bytes.

    `first` is the node with the control plane, if that is another one. Its supervisor owns all processes, and its
    memory includes that of the others. `fleet` is the number of hollow nodes, and `metrics` the URL of their metrics.
    """

    name: str
    phase: str
    kubernetes: str
    server: str = ""
    kubeconfig: str = ""
    problem: str = ""
    pid: int | None = None
    memory: int = 0
    first: str = ""
    fleet: int = 0
    metrics: str = ""


def status_of(folder: NodeFolder) -> Status:
    """Its status now. Raises ConfigurationError for a state that cannot be read."""
    state = read_state(folder.path)
    if state is None:
        return Status(folder.name, "starting", "")
    running = state.process is not None and state.process.runs()
    phase = state.phase if running or state.phase in ("stopped", "failed") else "killed"
    problem = state.problem or (_why_killed(folder) if phase == "killed" else "")
    kubeconfig, first = str(folder.kubeconfig), state.first
    fleet = 0 if first else state.fleet
    shown = Status(
        folder.name, phase, state.kubernetes, kubeconfig=kubeconfig, problem=problem, first=first, fleet=fleet
    )
    if not running or state.process is None:
        return shown
    pid = state.process.pid
    size = resident_memory(pid, folder.path if first else None)
    return replace(shown, server=state.server, pid=pid, memory=size, metrics="" if first else state.metrics)


def _why_killed(folder: NodeFolder) -> str:
    """A full disk: then the supervisor could not write why it ended."""
    full = shutil.disk_usage(folder.path).free < _MB
    return f"the disk of {folder.path} is full" if full else ""


def resident_memory(pid: int, folder: Path | None = None) -> int:
    """Bytes of resident memory of the process and all its descendants; only those of a folder, if it is given."""
    import psutil

    total = 0
    try:
        parent = psutil.Process(pid)
        everyone = [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in everyone:
        try:
            if folder is None or str(folder) + "/" in " ".join(process.cmdline()):
                total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def show_statuses(statuses: Sequence[Status], *, as_json: bool) -> None:
    """Prints a table, or a JSON list."""
    from dataclasses import asdict

    console = Console(highlight=False)
    if as_json:
        console.print(json.dumps([asdict(status) for status in statuses], indent=1), markup=False, soft_wrap=True)
        return
    if not statuses:
        console.print(as_called("no node is up; start one with `drahealth up`"), soft_wrap=True, markup=False)
    for one in statuses:
        runs = f"Kubernetes {one.kubernetes}" if one.kubernetes else "the reference"
        runs += f", control plane of {one.first}" if one.first else ""
        runs += f", a fleet of {one.fleet} node{'s' * (one.fleet != 1)}" if one.fleet else ""
        memory = f", {one.memory // _MB} MB, process {one.pid}" if one.pid else ""
        why = f": {one.problem}" if one.problem else ""
        console.print(f"[bold]{escape(one.name)}[/]  {one.phase}{escape(why)}  {runs}{memory}", soft_wrap=True)
        if one.pid:
            console.print(f"  {one.server}  {escape(one.kubeconfig)}  {one.metrics}".rstrip(), soft_wrap=True)


def show_ready(
    folder: NodeFolder,
    state: NodeState,
    drivers: Sequence[Sequence[str]],
    seconds: float | None = None,
    nodes: Sequence[NodeFolder] = (),
) -> None:
    """Prints that the node is Ready, or all of `nodes`, and the four lines that a user needs next.

    `seconds` is the duration of the start; None: the node was Ready before.
    """
    console = Console(highlight=False)
    already, after = (" already", "") if seconds is None else ("", f" after {seconds:.1f} s")
    names = [each.name for each in nodes or (folder,)]
    subject = f"node {names[0]} is" if len(names) == 1 else f"nodes {', '.join(names)} are"
    fleet = f", and a fleet of {state.fleet} node{'s' * (state.fleet != 1)}" if state.fleet else ""
    console.print(f"[bold]{subject}{already} Ready[/]{after}: {state.title}{fleet}", soft_wrap=True)
    console.print("\n".join(next_lines(folder, drivers, fleet=bool(fleet))), soft_wrap=True, markup=False)


def next_lines(folder: NodeFolder, drivers: Sequence[Sequence[str]], *, fleet: bool = False) -> list[str]:
    """The commands to try next."""
    named, drahealth = folder.name != DEFAULT_NODE, command_name()
    name = f" --name {folder.name}" if named else ""
    kubectl = "kubectl" if shutil.which("kubectl") else f"{drahealth} kubectl{name}"
    lines = [f"export KUBECONFIG={folder.kubeconfig}", f"{kubectl} get pods --all-namespaces"]
    if drivers:
        driver, device = drivers[0]
        options = [f"--name {folder.name}"] if named else []
        options += [f"--driver {driver}"] if len(drivers) > 1 else []
        command = "--fleet inject xid/48 --percent 5" if fleet else f"inject xid/48 {device}"
        lines.append(" ".join([drahealth, "ctl", *options, command]))
    lines.append(f"{drahealth} down{name}")
    return lines
