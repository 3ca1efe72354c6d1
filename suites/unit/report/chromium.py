"""A headless Chromium, controlled over pipes with the Chrome DevTools Protocol (https://chromedevtools.github.io)."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from drahealth.fakes.waiting import cancel_and_wait

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""Path of the browser; None if it is not installed."""
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe")
_EXEC = """
import os, sys
reading, writing = (os.dup(int(fd)) for fd in sys.argv[1:3])
for fd, number in ((reading, 13), (writing, 14)):
    os.dup2(fd, number)
for fd, number in ((13, 3), (14, 4)):  # the numbers that Chromium expects
    os.dup2(fd, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
_END = b"\0"
_PATIENCE = 60.0
"""Seconds for one command on a loaded machine."""
_LARGEST = 2**26

Theme = Literal["light", "dark"]


@dataclass
class Page:
    """A tab of the browser."""

    browser: "_Browser"
    session: str

    async def open(self, file: Path, *, width: int, theme: Theme, media: str = "screen") -> None:
        """Opens a file in a window of this width."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        scheme = [{"name": "prefers-color-scheme", "value": theme}]
        await self.call("Emulation.setDeviceMetricsOverride", **metrics)
        await self.call("Emulation.setEmulatedMedia", media=media, features=scheme)
        loaded = self.browser.expect("Page.loadEventFired")
        await self.call("Page.navigate", url=file.as_uri())
        await asyncio.wait_for(loaded, _PATIENCE)

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def picture(self, x: int, y: int, width: int, height: int) -> bytes:
        """A part of the page as WebP."""
        clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        found = await self.call(
            "Page.captureScreenshot", clip=clip, captureBeyondViewport=True, format="webp", quality=80
        )
        return b64decode(found["data"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command. Raises RuntimeError if it fails."""
        return await self.browser.call(method, params, self.session)

    @property
    def problems(self) -> list[str]:
        """What the console shows, and exceptions."""
        return self.browser.problems


@dataclass
class _Browser:
    reader: asyncio.StreamReader
    writer: int
    problems: list[str] = field(default_factory=list)
    _answers: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _expected: dict[str, asyncio.Future[None]] = field(default_factory=dict)

    async def call(self, method: str, params: dict[str, Any], session: str = "") -> dict[str, Any]:
        number = len(self._answers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self.writer, json.dumps(message).encode() + _END)
        found = await asyncio.wait_for(answer, _PATIENCE)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    def expect(self, event: str) -> asyncio.Future[None]:
        """Is done at the next event of this name."""
        found = self._expected[event] = asyncio.get_running_loop().create_future()
        return found

    async def listen(self) -> None:
        while True:
            message = json.loads((await self.reader.readuntil(_END))[:-1])
            if "id" in message:
                self._answers[message["id"]].set_result(message)
                continue
            if message["method"] in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                self.problems.append(json.dumps(message["params"]))
            if waiting := self._expected.pop(message["method"], None):
                waiting.set_result(None)


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """A new browser with one tab. It ends with the block, and leaves nothing."""
    assert PROGRAM
    with tempfile.TemporaryDirectory(prefix="dra-", ignore_cleanup_errors=True) as profile:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        words = (str(theirs_in), str(theirs_out), PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _EXEC, *words),
            pass_fds=(theirs_in, theirs_out),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(theirs_in)
        os.close(theirs_out)
        reader = asyncio.StreamReader(limit=_LARGEST)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb")
        )
        browser = _Browser(reader, ours_out)
        listening = asyncio.create_task(browser.listen())
        try:
            tab = await browser.call("Target.createTarget", {"url": "about:blank"})
            attached = await browser.call("Target.attachToTarget", {"targetId": tab["targetId"], "flatten": True})
            page = Page(browser, attached["sessionId"])
            for domain in ("Page", "Runtime", "Log"):
                await page.call(f"{domain}.enable")
            yield page
            await browser.call("Browser.close", {})
            await asyncio.wait_for(process.wait(), _PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await cancel_and_wait(listening)
            transport.close()
            os.close(ours_out)
