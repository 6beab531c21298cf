"""Pages as a browser shows them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from commands import call
from matplotlib.colors import to_rgb
from report_documents import DOCUMENTS

from orchestrator.answers.mapping_figure import TENSOR_HUES
from orchestrator.report.page import write_page

# The page in a window as wide as a phone, and how wide what it shows is.
PHONE = """<iframe id="phone" width="420" height="900" src="page.html"></iframe><script>
const phone = document.getElementById("phone");
phone.addEventListener("load", () => {
  const shown = phone.contentDocument.documentElement;
  document.title = [shown.scrollWidth, shown.clientWidth].join(" of ");
});
</script>"""
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HEIGHT = 4000


def rendered(page: Path, folder: Path, *options: str) -> str:
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", *options, page.as_uri(),
    ]  # fmt: skip
    environment = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.every_part
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_page_shows_its_drawings(tmp_path: Path) -> None:
    page, shot = tmp_path / "page.html", tmp_path / "page.png"
    assert call("search", "gemm:M=64,N=32,K=16", "--accelerator", "mm256-bw", "--html", page) == 0
    # The page tells what the browser has made of its images.
    asked = "document.title = [...document.images].map(i => i.naturalWidth + ':' + i.alt).join('|')"
    probe = tmp_path / "probe.html"
    script = f"<script>addEventListener('load', () => {{ {asked} }})</script>"
    # The page itself runs no scripts.
    free = re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text())
    probe.write_text(free.replace("</body>", f"{script}</body>"))
    title = re.search(r"<title>(.*?)</title>", rendered(probe, tmp_path, "--dump-dom"), re.DOTALL)
    assert title is not None
    images = dict(reversed(one.split(":", 1)) for one in title[1].split("|"))
    assert len(images) == 5
    assert all(int(width) > 300 for width in images.values())
    rendered(page, tmp_path, f"--screenshot={shot}", f"--window-size=1100,{HEIGHT}")
    pixels = matplotlib.image.imread(shot)[..., :3]
    assert pixels.shape[:2] == (HEIGHT, 1100)
    for hue in TENSOR_HUES[:3]:
        near = np.abs(pixels - np.array(to_rgb(hue))).max(axis=-1) < 0.06
        assert near.sum() > 300, hue
    # Nothing is wider than the window.
    assert np.ptp(pixels[:, -2:], axis=0).max() < 0.2


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("kind", ["benchmark", "sweep", "search"])
def test_a_phone_scrolls_no_page_sideways(kind: str, tmp_path: Path) -> None:
    write_page(DOCUMENTS[kind](tmp_path, "x" * 60), tmp_path / "page.html", tmp_path)
    (tmp_path / "phone.html").write_text(PHONE)
    options = ("--allow-file-access-from-files", "--dump-dom")
    shown = rendered(tmp_path / "phone.html", tmp_path, *options)
    widths = re.search(r"<title>(\d+) of (\d+)</title>", shown)
    assert widths is not None
    assert int(widths[1]) == int(widths[2]) > 380
