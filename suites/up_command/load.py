"""`drahealth load`: applies manifests to a node, without kubectl."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drahealth.fakes.program.user_files import FileError, documents
from drahealth.proto.quoting import one_line
from drahealth.suites.errors import ConfigurationError, HarnessError
from drahealth.suites.up_command.folder import NodeFolder

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
