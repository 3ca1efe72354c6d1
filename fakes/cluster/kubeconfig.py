"""Access to an API server from a kubeconfig. The official client reads it and refreshes credentials."""

from pathlib import Path

from kubernetes.aio import client, config

from drahealth.fakes.cluster.access import Access
from drahealth.fakes.hints import near
from drahealth.fakes.program.user_files import FileError, documents
from drahealth.proto.quoting import one_line


async def access(path: Path, context: str | None) -> Access:
    """The access from a kubeconfig. ValueError, with the path, if it has no server to connect to."""
    found, text = Access(client.Configuration()), ""
    try:
        text = _text(path)
        await config.load_kube_config(
            config_file=str(path), context=context, client_configuration=found.configuration, persist_config=False
        )
        found.tls()
    except OSError as error:
        raise ValueError(f"kubeconfig {path}: {error.strerror or error}") from None
    except Exception as error:  # the loader does not catch errors of its parser and credential plugins
        raise ValueError(f"kubeconfig {path}: {(text and _why(text, context)) or one_line(str(error))}") from error
    return found


def _text(path: Path) -> str:
    """The file's text. The loader would report a missing or empty file as invalid content."""
    text = path.read_text()
    if not text.strip():
        raise ValueError("the file is empty")
    return text


def _why(text: str, context: str | None) -> str:
    """The reason why the loader rejects the file, for its author; empty if only the loader knows it."""
    try:
        (document,) = documents(text, "")
    except FileError as error:
        return str(error.problems[0])
    except ValueError:
        return "it must have one YAML document"
    if not isinstance(document.data, dict):
        return "it must be a kubeconfig with `apiVersion: v1` and `kind: Config`"
    name = context or document.data.get("current-context")
    contexts = _names(document.data.get("contexts"))
    if not contexts:
        return "it has no contexts"
    if not name:
        return f"it has no current-context; {near('', contexts)}"
    return f"it has no context {name!r}; {near(str(name), contexts)}" if name not in contexts else ""


def _names(entries: object) -> list[str]:
    named = entries if isinstance(entries, list) else []
    return [entry["name"] for entry in named if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
