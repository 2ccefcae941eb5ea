"""Looks at all pages in a browser: the site, and the pages and pictures that ``verify`` and ``inspect`` write.

``python -m tests.docs.views [WORD ...]``, only pages whose addresses hold one of the words, if there are any. Each is
viewed light and dark, narrow and wide: nothing may stick out to the right, and nothing be an error to the browser.
It takes Chromium (Debian's package ``chromium``).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.docs.chromium import Chromium

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
VIEWS = [(scheme, width) for scheme in ("light", "dark") for width in (380, 1600)]
HEIGHT = 900
NODES = 1000

MEASURE = r"""(() => {
  document.querySelectorAll("details").forEach(part => part.open = true);
  const root = document.documentElement, inside = [];
  for (const part of document.body ? document.body.querySelectorAll("*") : []) {
    if (part.getBoundingClientRect().right <= root.clientWidth + 1) continue;
    let around = part.parentElement;
    while (around && !/auto|scroll|hidden/.test(getComputedStyle(around).overflowX)) around = around.parentElement;
    if (!around || around === root) inside.push(part.outerHTML.slice(0, 90));
  }
  const style = document.body && getComputedStyle(document.body);
  const bright = colour => colour.match(/[\d.]+/g).slice(0, 3).reduce((sum, each) => sum + Number(each), 0) > 382;
  const clear = style && style.backgroundColor === "rgba(0, 0, 0, 0)";
  return {text: style && bright(style.color), back: style && !clear ? bright(style.backgroundColor) : null,
          wide: root.scrollWidth, window: root.clientWidth, parts: inside.slice(0, 3)};
})()"""

PLANTED = {
    "glares": "<style>:root { color-scheme: light }</style>",
    "overflows": "<p style='width: 2000px'>wide</p>",
    "logs": "<script>console.error('planted')</script>",
    "throws": "<script>planted()</script>",
    "misses": "<img src='planted.png' alt=''>",
    "scrolls": "<pre style='overflow-x: auto'>" + "planted " * 500 + "</pre>",
}
FOUND = {"glares": ("colours", 2), "overflows": ("sticks out", 4), "logs": ("planted", 4), "throws": ("planted", 4),
         "misses": ("planted.png", 4), "scrolls": ("", 0)}
"""What must be said of the planted pages, and in how many views; nothing of the last."""


def faults(scheme: str, measured: dict[str, Any], events: Sequence[dict[str, Any]], *,
           picture: bool = False) -> Iterator[str]:
    """What is wrong with a page as it was measured in a scheme, and by the events of the browser.

    picture: nothing but a picture, which has the size that it has, and is scrolled.
    """
    if measured["wide"] > measured["window"] and not picture:
        parts = "; ".join(measured["parts"])
        yield f"sticks out of {measured['window']} px by {measured['wide'] - measured['window']}: {parts}"
    dark = scheme == "dark"
    if not picture and (measured["text"] != dark or measured["back"] == dark):
        yield f"colours are not {scheme}"
    for event in events:
        given = event["params"]
        if event["method"] == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            yield str(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Runtime.consoleAPICalled" and given["type"] in ("error", "assert"):
            yield " ".join(str(each.get("value", each.get("description", ""))) for each in given["args"])
        elif event["method"] == "Log.entryAdded" and given["entry"]["level"] == "error":
            yield f"{given['entry']['text']} {given['entry'].get('url', '')}".strip()


def looked_at(browser: Chromium, address: str) -> Iterator[str]:
    """The faults of a page in all views, each after its view."""
    for scheme, width in VIEWS:
        browser.view(address, width, HEIGHT, scheme)
        measured = browser.evaluate(MEASURE)
        for fault in faults(scheme, measured, browser.events, picture=address.endswith(".svg")):
            yield f"{scheme}, {width} px: {fault}"


def blind_spots(browser: Chromium, folder: Path) -> Iterator[str]:
    """What of the planted faults is not found in all views."""
    for name, content in PLANTED.items():
        page = folder / f"{name}.html"
        page.write_text(f"<!doctype html><meta name=color-scheme content='light dark'><title>{name}</title><body>{content}</body>", encoding="utf-8")
        said = list(looked_at(browser, page.as_uri()))
        words, count = FOUND[name]
        if len(said) != count or not all(words in each for each in said):
            yield f"the page that {name}: {said}"


def large_model() -> onnx.ModelProto:
    """Nodes with long names, side by side and one after the other."""
    nodes, last = [], "image"
    for block in range(NODES // 10):
        name = f"/encoder/layers.{block}/attention/self/query_key_value_projection/MatMul_output_0"
        nodes.append(helper.make_node("MatMul", [last, "weight"], [name], f"{name}_node"))
        for side in range(4):
            nodes.append(helper.make_node("Tanh", [name], [f"{name}.{side}"], f"{name}.{side}"))
            nodes.append(helper.make_node("Sigmoid", [f"{name}.{side}"], [f"{name}.{side}.s"], f"{name}.{side}.s"))
        last = f"{name}_sum"
        nodes.append(helper.make_node("Sum", [f"{name}.{side}.s" for side in range(4)], [last], last))
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32), "weight")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("image", last)]
    graph = helper.make_graph(nodes, "encoder", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def written_pages(folder: Path) -> list[Path]:
    """The pages and pictures of a large model: two reports, of results that agree and that differ, and its graph."""
    model = folder / "model.onnx"
    onnx.save(large_model(), model)
    names = ("agrees.html", "differs.html", "graph.html", "graph.svg")
    verify, inspect = ["verify", model.name, "--per-node", "--report"], ["inspect", model.name, "--graph"]
    commands = ([*verify, names[0]], [*verify, names[1], "--rtol=0", "--atol=0"], [*inspect, names[2]],
                [*inspect, names[3]])
    for name, command in zip(names, commands, strict=True):
        done = subprocess.run([sys.executable, "-m", "onnx_systemds", *command], cwd=folder, capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        assert done.returncode == (name == "differs.html"), f"{name}: {done.stderr or done.stdout}"
    return [folder / name for name in names]


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder while it is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def main(words: list[str]) -> int:
    """Look at the pages and say what is wrong with them; the exit code."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        print("no Chromium here; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = place / "site"
        subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site], cwd=ROOT,
                       check=True)
        base = stack.enter_context(served(site))
        addresses = [f"{base}/{page.relative_to(site)}" for page in sorted(site.rglob("*.html"))]
        addresses += [page.as_uri() for page in written_pages(place)]
        chosen = [address for address in addresses if not words or any(word in address for word in words)]
        browser = stack.enter_context(contextlib.closing(Chromium(program, place / "home")))
        failed = list(blind_spots(browser, place))
        print("".join(f"NOT FOUND in {words}\n" for words in failed), end="")
        for address in chosen:
            said = list(looked_at(browser, address))
            failed += said
            print(f"{address.removeprefix(base)}: {len(said)} faults", *said, sep="\n  ", flush=True)
    print(f"{len(chosen)} pages, {len(VIEWS)} views of each, {len(failed)} faults, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
