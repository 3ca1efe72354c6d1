"""Another user of this machine: what it can open, and which servers answer it."""

import asyncio
import json
import os
import sys
from typing import Any

import pytest

from drahealth.suites.unit.endings import PATIENCE

OTHER_USER = """
import encodings.idna, http.client, json, os, socket, ssl, sys

given = json.loads(sys.argv[1])
context = ssl._create_unverified_context()
os.setgroups([]), os.setgid(65534), os.setuid(65534)
answers, opened = {}, []
for path in given["paths"]:
    try:
        if path in given["sockets"]:
            socket.socket(socket.AF_UNIX).connect(path)
        else:
            open(path).read()
        opened.append(path)
    except PermissionError:
        pass
for method, port, path in given["requests"]:
    tls = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    plain = http.client.HTTPConnection("127.0.0.1", port)
    connection = plain if port == given["plain"] else tls
    connection.request(method, path, b"{}" if method == "POST" else None, {"Content-Type": "application/json"})
    answers[f"{method} {path}"] = connection.getresponse().status
print(json.dumps({"opened": opened, "answers": answers}))
"""
"""A program that gives up its rights, and then tries all of this. Its imports come first."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


async def other_user(**given: Any) -> dict[str, Any]:
    """What another user can do: the paths that it opened, and the statuses of the answers."""
    pipe = asyncio.subprocess.PIPE
    line = (sys.executable, "-c", OTHER_USER, json.dumps(given))
    process = await asyncio.create_subprocess_exec(*line, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(PATIENCE):
        out, error = await process.communicate()
    assert (process.returncode, error.decode()) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found
