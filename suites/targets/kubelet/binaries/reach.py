"""Whether a server can be reached, in a few seconds.

A connect timeout does not cover the resolver, which can hang for half a minute if a network drops its packets. So a
small process makes the attempt, and can be killed.
"""

import subprocess
import sys
from urllib.parse import urlsplit

_ATTEMPT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()"
_PORTS = {"http": 80, "https": 443}


def reachable(url: str, limit: float = 4.0) -> bool:
    """Whether the server of the URL, or its proxy, accepts connections; waits at most `limit` seconds."""
    host, port = _first_hop(url)
    try:
        attempt = [sys.executable, "-I", "-c", _ATTEMPT, host, str(port)]
        return subprocess.run(attempt, timeout=limit, capture_output=True, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _first_hop(url: str) -> tuple[str, int]:
    import requests.utils

    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    if proxy is not None and "//" not in proxy:
        proxy = f"http://{proxy}"
    parts = urlsplit(proxy or url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 1080)
