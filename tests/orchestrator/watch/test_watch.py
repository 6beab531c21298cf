"""The live page of a run folder: a real server, its event stream, and who is let in."""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import call

from mapspace.errors import ConfigError, DataError, MapspaceError
from orchestrator.report.palette import PALETTE, method_styles
from orchestrator.runs import progress_writer
from orchestrator.runs.lock import Claim
from orchestrator.runs.progress_file import (
    LONGEST_TEXT,
    MOST_FAILURES,
    MOST_POINTS,
    MOST_RUNNING,
    PROGRESS_FILE,
    Chart,
    Grid,
    Progress,
    read_progress,
)
from orchestrator.runs.progress_writer import ProgressWriter, curve
from orchestrator.watch import state
from orchestrator.watch.server import Latest, WatchServer, open_server, page
from orchestrator.watch.state import folder_state, run_state

STARTED = {"kind": "sweep", "name": "mine", "process": "process 1 on host"}


def progress_of(**changes: Any) -> Progress:
    now = time.time()
    times = {"started": now - 30, "updated": now, "beat": 5.0}
    content = {"version": 1, "status": "running", **STARTED, **times, **changes}
    return Progress.model_validate(content)


def write(folder: Path, **changes: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / PROGRESS_FILE).write_text(progress_of(**changes).model_dump_json())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchServer]:
    with open_server(Latest(lambda: folder_state(tmp_path / "run"), 0.05), 0) as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def asked(server: WatchServer, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse()


def next_event(stream: http.client.HTTPResponse) -> Any:
    """The next state of a stream of events."""
    while not (line := stream.readline()).startswith(b"data: "):
        assert line
    return json.loads(line.removeprefix(b"data: "))


def test_a_stream_follows_a_run(server: WatchServer, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    stream = asked(server, "/events")
    assert stream.getheader("Content-Type") == "text/event-stream"
    assert next_event(stream)["runs"] == []
    write(folder, unit="points", total=9, done=4)
    (run,) = next_event(stream)["runs"]
    assert (run["done"], run["total"], run["name"], run["silent"]) == (4, 9, "mine", None)
    write(folder, unit="points", total=9, done=9, status="finished")
    (run,) = next_event(stream)["runs"]
    assert (run["done"], run["status"]) == (9, "finished")
    assert json.loads(asked(server, "/state").read())["runs"] == [run]
    stream.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1234", 200),
        ("127.0.0.1:8770", 200),
        ("[::1]:99", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8770", 403),
        ("localhost@evil.example", 403),
        ("", 403),
    ],
)
def test_only_this_machine_by_its_own_name(server: WatchServer, host: str, status: int) -> None:
    assert server.server_address[0] == "127.0.0.1"
    for path in ("/", "/state", "/nothing"):
        found = asked(server, path, Host=host).status
        assert found == (404 if (status, path) == (200, "/nothing") else status)


@pytest.mark.parametrize(
    "path", ["/progress.json", "/../secret", "/%2e%2e/secret", "//secret", "/events/..", "/state/"]
)
def test_no_path_becomes_a_file(server: WatchServer, tmp_path: Path, path: str) -> None:
    write(tmp_path / "run")
    (tmp_path / "secret").write_text("secret")
    answer = asked(server, path)
    assert answer.status == 404
    assert b"secret" not in answer.read()


def test_the_page_runs_its_own_script_alone(server: WatchServer) -> None:
    answer = asked(server, "/")
    policy = answer.getheader("Content-Security-Policy") or ""
    assert "default-src 'none'; script-src 'sha256-" in policy
    assert "unsafe" not in policy
    page = answer.read().decode()
    assert "EventSource" in page
    assert "innerHTML" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_port_that_is_taken_is_named(server: WatchServer, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(ConfigError, match=rf"--port: {server.server_port} cannot be used"):
        open_server(server.latest, server.server_port)
    assert call("watch", tmp_path, "--port", server.server_port) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "give another one, or 0" in line


def test_the_first_look_is_made_before_anybody_can_open_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    ready: list[str] = []

    def serve(server: WatchServer, **_: Any) -> None:
        ready.append(server.latest._text)

    monkeypatch.setattr(WatchServer, "serve_forever", serve)
    assert call("watch", tmp_path, "--port", 0) == 0
    assert "Ctrl-C ends it" in capsys.readouterr().out
    assert json.loads(ready[0])["runs"] == []


def test_what_is_no_folder_is_one_line(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").touch()
    for name, why in (("file", "is no folder"), ("gone", "there is no such folder")):
        assert call("watch", tmp_path / name, "--once") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{name}: {why}; expected a run folder" in line
    assert call("watch", tmp_path, "--once") == 0
    assert "no run has begun here" in capsys.readouterr().out


def test_damage_is_named_and_hides_no_other_run(tmp_path: Path) -> None:
    write(tmp_path / "a", status="finished")
    write(tmp_path / "b", updated=time.time() - 100)
    for name, content in (("c", "{"), ("d", '{"version": 2}'), ("e", "9" * (5 << 20))):
        (tmp_path / name).mkdir()
        (tmp_path / name / PROGRESS_FILE).write_text(content)
    runs = {run["path"]: run for run in folder_state(tmp_path)["runs"]}
    assert (runs["a"]["status"], runs["a"]["silent"]) == ("finished", None)
    assert runs["b"]["silent"] == pytest.approx(100, abs=5)
    for name in "cde":
        assert runs[name]["status"] == "unknown"
        assert str(tmp_path / name / PROGRESS_FILE) in runs[name]["problem"]
    with pytest.raises(DataError, match=r"version: .*1"):
        read_progress(tmp_path / "d")


def test_a_run_from_before_says_so(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{}")
    (tmp_path / "sweep.html").write_text("")
    found = run_state(tmp_path, "")
    assert found is not None
    assert (found["status"], found["words"]) == ("unknown", "a sweep")
    assert found["page"] == str(tmp_path / "sweep.html")
    assert "did not note how it stands" in found["problem"]


def told(folder: Path) -> Progress:
    found = read_progress(folder)
    assert found is not None
    return found


def test_what_a_run_tells_is_bounded(tmp_path: Path) -> None:
    writer = ProgressWriter()
    with writer.written(tmp_path, Claim(tmp_path), "sweep", "mine"):
        writer.stage("work", unit="points", total=100, done=10)
        for number in range(200):
            writer.begin_task(number, "x" * 9999)
            writer.fail(f"failure {number}\nwith two lines")
            writer.line("y" * 9999)
        writer.advance(30)
        writer.end_task(0)
        points = [(x, x if x % 2 else math.inf) for x in range(10_001)]
        chart = Chart(title="t", across="x", up="y", curves=(curve("c", points),))
        writer.show(lambda: ([chart], [Grid(title="g", header=("a",), rows=((None,),))]))
        deadline = time.monotonic() + 10
        while (found := read_progress(tmp_path)) is None or found.done != 40:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (found.status, found.before, found.total) == ("running", 10, 100)
        assert (len(found.running), found.running_more) == (MOST_RUNNING, 199 - MOST_RUNNING)
        assert len(found.running[0].name) == len(found.lines[-1]) == LONGEST_TEXT
        assert (found.failures, len(found.failure_lines)) == (200, MOST_FAILURES)
        assert found.failure_lines[-1] == "failure 199 with two lines"
        assert len(found.charts[0].curves[0].points) <= MOST_POINTS
        assert found.charts[0].curves[0].points[-1] == (9999, 9999)
        assert found.seconds_left is not None
    assert told(tmp_path).status == "finished"
    assert not told(tmp_path).running


def test_a_task_that_ends_well_after_all_leaves_no_failure(tmp_path: Path) -> None:
    writer = ProgressWriter()
    with writer.written(tmp_path, Claim(tmp_path), "benchmark", "mine"):
        for text, key in (("a", 1), ("b", 2), ("c", None), ("d", 1)):
            writer.fail(text, key)
        writer.mend(1)
        writer.mend(3)
    found = told(tmp_path)
    assert (found.failures, found.failure_lines) == (2, ("b", "c"))


def test_a_run_is_shown_before_its_kind_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes seconds beside other work, and a page shall not wait for it."""
    monkeypatch.setattr(state, "kind_in", lambda folder: pytest.fail("a kind is imported"))
    with ProgressWriter().written(tmp_path, Claim(tmp_path), "benchmark", "mine"):
        deadline = time.monotonic() + 10
        while read_progress(tmp_path) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (run,) = state.folder_state(tmp_path)["runs"]
    assert (run["status"], run["words"]) == ("running", "a run, benchmark")


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (MapspaceError("no room\nmore"), "failed", "no room"),
        (KeyboardInterrupt(), "interrupted", "interrupted; the same command continues it."),
    ],
)
def test_how_a_run_ended(tmp_path: Path, error: BaseException, status: str, reason: str) -> None:
    with (
        pytest.raises(type(error)),
        ProgressWriter().written(tmp_path, Claim(tmp_path), "sweep", "mine"),
    ):
        raise error
    assert (told(tmp_path).status, told(tmp_path).reason) == (status, reason)


def test_a_finished_run_keeps_its_file_until_more_is_done(tmp_path: Path) -> None:
    for more in (0, 0, 1):
        before = (tmp_path / PROGRESS_FILE).read_bytes() if told_anything(tmp_path) else b""
        writer = ProgressWriter()
        with writer.written(tmp_path, Claim(tmp_path), "sweep", "mine"):
            writer.line("already finished")
            if more:
                writer.advance()
        assert ((tmp_path / PROGRESS_FILE).read_bytes() == before) == (before != b"" and not more)


def test_what_a_killed_run_left_half_written_goes(tmp_path: Path) -> None:
    (tmp_path / f".{PROGRESS_FILE}.11142-ddb61da4.tmp").write_text("{")
    (tmp_path / ".summary.json.11142-ddb61da4.tmp").write_text("{")  # another file's
    with ProgressWriter().written(tmp_path, Claim(tmp_path), "sweep", "mine"):
        pass
    left = {PROGRESS_FILE, ".summary.json.11142-ddb61da4.tmp"}
    assert {path.name for path in tmp_path.iterdir()} == left


def told_anything(folder: Path) -> bool:
    return (folder / PROGRESS_FILE).exists()


def test_a_full_disk_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress_writer, "write_atomically", full)
    writer = ProgressWriter()
    with writer.written(tmp_path, Claim(tmp_path), "sweep", "mine"):
        writer.advance()
    assert not told_anything(tmp_path)


def test_a_folder_that_was_taken_over_is_not_written(tmp_path: Path) -> None:
    claim = Claim(tmp_path)
    claim.lost = True
    with ProgressWriter().written(tmp_path, claim, "sweep", "mine"):
        pass
    assert not told_anything(tmp_path)


def test_the_page_draws_in_the_colours_of_reports() -> None:
    content, _ = page()
    assert f"const COLOURS = {json.dumps(PALETTE)};" in content.decode()
    style = method_styles([("a", "annealing"), ("b", "annealing")])["b"]
    made = curve("b", [(1, 2)], colour=style.colour, dashed=style.dashed)
    assert (made.colour, made.dashed) == (style.colour, (4.0, 1.6))
