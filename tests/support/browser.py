"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from support.eventually import PATIENCE

#: Debian's package has the first name.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), "")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-component-update",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Tab:
    """One tab. problems: uncaught errors and what was logged as one."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self.problems: list[str] = []

    async def listen(self) -> None:
        """Take what the browser says until it ends."""
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] == "Runtime.exceptionThrown":
                details = said["params"]["exceptionDetails"]
                self.problems.append(details.get("exception", details).get("description", ""))
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                entry = said["params"]["entry"]
                self.problems.append(f"{entry['text']} {entry.get('url', '')}")

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call the protocol."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        said = await asyncio.wait_for(answer, PATIENCE)
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']['message']}")
        result: dict[str, Any] = said["result"]
        return result

    async def run(self, script: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        said = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"]["exception"]["description"])
        return said["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression is true; return its value.

        While the page is loading, what it speaks of may not be there.
        """
        latest: Any = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while True:
                    with contextlib.suppress(RuntimeError):
                        if latest := await self.run(script):
                            return latest
                    await asyncio.sleep(0.1)
        raise AssertionError(f"never true: {script}: {latest}; problems: {self.problems}")

    async def open(self, url: str) -> None:
        """Go to a page."""
        await self.call("Page.navigate", url=url)

    async def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the window and the colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def key(self, key: str) -> None:
        """Press a key."""
        codes = {"Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Tab": 9}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
            )

    async def screenshot(self, *, whole: bool = True) -> bytes:
        """Return a picture of the page, as PNG."""
        said = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(said["data"])


@asynccontextmanager
async def browser() -> AsyncIterator[Tab]:
    """Start a browser with one tab, and end it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM,
            *_ARGUMENTS,
            f"--user-data-dir={folder}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": folder},
        )
        try:
            async with aiohttp.ClientSession() as session, _tab(session, Path(folder)) as tab:
                yield tab
                # One that is killed leaves processes behind that still write for a moment.
                with contextlib.suppress(TimeoutError, aiohttp.ClientError):
                    await tab.call("Browser.close")
                    await asyncio.wait_for(process.wait(), PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def _tab(session: aiohttp.ClientSession, folder: Path) -> AsyncIterator[Tab]:
    said = folder / "DevToolsActivePort"
    async with asyncio.timeout(PATIENCE):
        while not said.exists() or not said.read_text().strip():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{said.read_text().split()[0]}"
        targets: list[dict[str, str]] = []
        while not targets:
            async with session.get(f"{address}/json/list") as response:
                targets = [t for t in await response.json() if t["type"] == "page"]
    async with session.ws_connect(targets[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
        tab = Tab(socket)
        listening = asyncio.create_task(tab.listen(), name="listen to the browser")
        try:
            for domain in ("Page", "Runtime", "Log"):
                await tab.call(f"{domain}.enable")
            yield tab
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
