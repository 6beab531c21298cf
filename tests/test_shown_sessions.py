"""What pages show of commands is what the commands print.

A block ```` ```text ```` right behind one of ```` ```bash ```` is the output of its last command:
its lines in their order, `...` for what is left out. Files that the commands read are blocks of the
page whose first line is a comment with their name.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from commands import call
from paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(
    r"^```bash\n((?:(?!```).)*)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
FILE = re.compile(r"# (\S+\.\w+)\n")
# Pages of which every command is run; others are where an output is shown.
WHOLE = {"README.md", "index.md"}
# Commands of other programs, and those that have a test of their own.
ELSEWHERE = re.compile(
    r"git clone|cd mapspace|pip install|make (run|test)|mapspace (benchmark|sweep|design) "
)
SHOWN = [page for page in PAGES if page.name in WHOLE or SESSION.search(page.read_text())]


@pytest.mark.parametrize("page", SHOWN, ids=[str(page.relative_to(ROOT)) for page in SHOWN])
def test_a_page_shows_what_its_commands_print(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    text = page.read_text()
    for _, content in BLOCK.findall(text):
        if named := FILE.match(content):
            Path(named[1]).write_text(content[named.end() :])
    for commands, shown in sessions(text, whole=page.name in WHOLE):
        printed = ""
        for line in commands.replace("\\\n", "").splitlines():
            if ELSEWHERE.match(line):
                assert not shown or line != commands.splitlines()[-1], line
                continue
            program, *words = shlex.split(line, comments=True)
            assert program == "mapspace", line
            capsys.readouterr()
            assert call(*words) == 0, capsys.readouterr().err
            printed = capsys.readouterr().out
        missing = first_missing(shown, printed)
        assert missing is None, f"{missing!r} is not in\n{printed}"


def sessions(text: str, *, whole: bool) -> list[tuple[str, str]]:
    """Commands and what is shown of the last one's output; without any, all commands."""
    found = SESSION.findall(text)
    if whole:
        shown = {commands for commands, _ in found}
        found += [(block, "") for language, block in BLOCK.findall(text) if language == "bash"]
        found = [one for one in found if one[1] or one[0] not in shown]
        found.sort(key=lambda one: text.index(one[0]))
    return found


def first_missing(shown: str, printed: str) -> str | None:
    """The first line shown that does not come, in this order, in what was printed."""
    lines = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in filter(None, (" ".join(line.split()) for line in shown.splitlines())):
        pattern = re.escape(line).replace(re.escape("..."), ".*")
        if line != "..." and not any(re.fullmatch(pattern, one) for one in lines):
            return line
    return None


def test_what_readme_makes_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {"run", "test"} <= set(targets)
    assert all(re.search(rf"^{target}: ", makefile, re.MULTILINE) for target in targets)


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 700


def test_lines_are_compared_in_their_order() -> None:
    printed = "a 1\nb  2\nproven (17 bounds)\n"
    assert first_missing("a 1\n...\nproven (...)\n", printed) is None
    assert first_missing("b 2\na 1\n", printed) == "a 1"
    assert first_missing("a 2\n", printed) == "a 2"
    assert first_missing("a\n", printed) == "a"
