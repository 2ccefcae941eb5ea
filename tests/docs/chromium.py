"""A Chromium of this machine, spoken to in the DevTools protocol over a pipe: ``Chromium(program)``, then ``view``."""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

SECONDS = 120  # the longest silence of a browser that works
_SETTLED = """new Promise(done => {
  const settled = () => requestAnimationFrame(() => setTimeout(done, 100));
  if (document.readyState === "complete") settled(); else addEventListener("load", settled);
})"""


class Chromium:
    """A browser without a window. home: a folder that is its own."""

    def __init__(self, program: str, home: Path) -> None:
        there, self._write = os.pipe()
        self._read, back = os.pipe()
        options = ["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", f"--user-data-dir={home}",
                   "--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        # The protocol's pipes are the descriptors 3 and 4.
        self._process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{there} 4>&{back}', "sh", program, *options],
                                         pass_fds=(there, back), stderr=subprocess.DEVNULL)
        os.close(there)
        os.close(back)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        self._session = ""
        self._contexts: list[str] = []

    def view(self, address: str, width: int, height: int, scheme: str) -> None:
        """Load a page in a window of this size, in the scheme light or dark; its events are in ``events`` then."""
        # Each time a browser that remembers nothing: the site keeps what scheme it was read in.
        self._session = ""
        for old in self._contexts:
            self.call("Target.disposeBrowserContext", browserContextId=old)
        self._contexts = [self.call("Target.createBrowserContext")["browserContextId"]]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=self._contexts[0])["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.events.clear()
        answer = self.call("Page.navigate", url=address)
        if "errorText" in answer:
            raise RuntimeError(f"{address}: {answer['errorText']}")
        self.evaluate(_SETTLED)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page, awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def close(self) -> None:
        """End the browser."""
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(SECONDS)

    def _take(self) -> dict[str, Any]:
        """The next message of the browser; kept, if it is an event."""
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], SECONDS)[0]:
                raise TimeoutError(f"Chromium said nothing for {SECONDS} s")
            part = os.read(self._read, 1 << 16)
            if not part:
                raise RuntimeError("Chromium ended")
            self._buffer += part
        first, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        if "method" in message:
            self.events.append(message)
        return message
