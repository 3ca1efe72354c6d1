"""Access to an API server as a kubeconfig describes it: the official client reads it and keeps credentials fresh."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from kubernetes.aio import client, config

from drahealth.fakes.clients.access import Access, lenient


async def access(path: Path, context: str | None) -> Access:
    """ValueError, with the path, for a kubeconfig that says no server to connect to."""
    configuration = client.Configuration()
    try:
        _check_readable(path)
        await config.load_kube_config(
            config_file=str(path), context=context, client_configuration=configuration, persist_config=False
        )
        tls = _tls(configuration) if configuration.host.startswith("https:") else None
    except Exception as error:  # the loader lets through whatever its parser and credential plugins raise
        raise ValueError(f"kubeconfig {path}: {error}") from error

    async def headers() -> Mapping[str, str]:
        settings = (await configuration.auth_settings()).values()
        return {one["key"]: one["value"] for one in settings if one["in"] == "header"}

    return Access(configuration.host, headers, tls, configuration.proxy, configuration.tls_server_name)


def _check_readable(path: Path) -> None:
    """The loader takes a file that is not there, or is empty, for one with strange contents."""
    if not path.read_text().strip():
        raise ValueError("the file is empty")


def _tls(configuration: client.Configuration) -> ssl.SSLContext:
    """As kubectl does it: the CA of the kubeconfig, client certificates."""
    context = lenient(ssl.create_default_context(cafile=configuration.ssl_ca_cert))
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
