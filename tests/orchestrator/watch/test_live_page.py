"""The live page in a real browser."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.runs.lock import Claim
from orchestrator.runs.progress_file import Chart, Grid
from orchestrator.runs.progress_writer import ProgressWriter, curve
from orchestrator.watch.server import Latest, WatchServer, open_server
from orchestrator.watch.state import folder_state

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
SECONDS = 60.0
NAME = "<b>not bold</b>"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no browser"),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchServer]:
    (tmp_path / "run").mkdir()
    with open_server(Latest(lambda: folder_state(tmp_path / "run"), 0.2), 0) as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


@pytest.fixture
def devtools(server: WatchServer, tmp_path: Path) -> Iterator[str]:
    """The address of the tools of a browser that has the page open."""
    assert BROWSER is not None
    profile = tmp_path / "profile"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    options += [f"--user-data-dir={profile}", "--window-size=1100,1400", server.url]
    browser = subprocess.Popen(
        [BROWSER, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        port = profile / "DevToolsActivePort"
        deadline = time.monotonic() + SECONDS
        while not port.exists() or not port.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
    finally:
        browser.terminate()
        browser.wait(SECONDS)


async def shown(devtools: str, wanted: str) -> dict[str, Any]:
    """What the page shows as soon as an expression is true there."""
    aiohttp = pytest.importorskip("aiohttp")
    async with aiohttp.ClientSession() as session:
        targets = await (await session.get(f"{devtools}/json")).json()
        (target,) = (one for one in targets if one["type"] == "page")
        async with session.ws_connect(
            target["webSocketDebuggerUrl"], max_msg_size=1 << 26
        ) as tools:
            number = 0

            async def ask(method: str, **params: Any) -> Any:
                nonlocal number
                number += 1
                await tools.send_json({"id": number, "method": method, "params": params})
                while (answer := json.loads((await tools.receive()).data)).get("id") != number:
                    pass
                return answer["result"]

            async def value(expression: str) -> Any:
                answer = await ask("Runtime.evaluate", expression=expression, returnByValue=True)
                return answer["result"].get("value")

            deadline = time.monotonic() + SECONDS
            while not await value(wanted):
                assert time.monotonic() < deadline, await value("document.body.innerText")
                await asyncio.sleep(0.2)
            return {
                "text": await value("document.body.innerText"),
                "bold": await value("document.querySelectorAll('b').length"),
                "lines": await value("document.querySelectorAll('polyline').length"),
                "done": await value("document.querySelector('progress').value"),
            }


def test_the_page_follows_a_run(devtools: str, tmp_path: Path) -> None:
    """What is written is drawn; names from files stay text; the end is seen without a reload."""

    def page(wanted: str) -> dict[str, Any]:
        return asyncio.run(shown(devtools, wanted))

    folder, writer = tmp_path / "run", ProgressWriter()
    with writer.written(folder, Claim(folder), "benchmark", NAME):
        writer.stage("searching", unit="searches", total=40)
        writer.advance(10)
        writer.workers(2, 2)
        writer.begin_task(1, f"{NAME} on conv")
        writer.fail("random on conv, seed 3: found no mapping")
        curves = tuple(curve(name, [(1, 90), (100, 4), (1000, 0)]) for name in (NAME, "other"))
        chart = Chart(title="above", across="n", up="%", logarithmic=True, curves=curves)
        table = Grid(title="now", header=("workload", NAME), rows=(("conv", 0.0), ("fc", None)))
        writer.show(lambda: ([chart], [table]))
        found = page("document.querySelectorAll('polyline').length == 2")
        for text in (NAME, "10 of 40", "2 of 2", "estimated end", "found no mapping", "conv"):
            assert text in found["text"]
        assert (found["bold"], found["done"]) == (0, 10)
        writer.advance(30)
    found = page("document.querySelector('[data-status=finished]') !== null")
    assert "40 of 40" in found["text"]
