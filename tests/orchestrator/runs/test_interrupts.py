"""Ctrl-C at every moment of a command: one line, its exit status, and the same command goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paths import ROOT

from orchestrator.runs import interrupts

IN_A_PROCESS = """
import ctypes, os, signal, sys, time
from orchestrator.runs.interrupts import command_process, interruptible

def press():
    os.kill(os.getpid(), signal.SIGINT)

@ctypes.CFUNCTYPE(None)
def callback():
    press()

class Freed:
    def __del__(self):
        press()

class Complains:
    def __del__(self):
        raise AttributeError("half made")

with command_process() as begin:
"""


def of_a_command(folder: Path, body: str, before: str = "") -> tuple[int, str, str]:
    """What becomes of `python -m command` whose command is such lines."""
    code = IN_A_PROCESS.replace("with command_process", f"{before}\nwith command_process")
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    (folder / "command.py").write_text(code + lines)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "command"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("press(); time.sleep(50)", "Error: interrupted.\n"),
        ("begin(); press(); time.sleep(50)", "Error: interrupted.\n"),
        # Python prints these and goes on.
        ("begin(); callback(); time.sleep(50)", "Error: interrupted.\n"),
        ("begin(); Freed(); time.sleep(50)", "Error: interrupted.\n"),
        (
            "begin()\ntry: press(); time.sleep(50)\nfinally: Complains()",
            "Error: interrupted.\n",
        ),
        # A library takes it for something else; Python would end by a signal.
        (
            "begin()\ntry: exec('press()')\nexcept BaseException: raise ImportError('failed')",
            "Error: interrupted.\n",
        ),
        (
            "begin()\ntry: press(); time.sleep(50)\nexcept KeyboardInterrupt: sys.exit(1)",
            "Error: interrupted.\n",
        ),
        # What the command line itself says.
        (
            "begin()\ntry: press(); time.sleep(50)\nexcept KeyboardInterrupt: sys.exit(130)",
            "",
        ),
    ],
)
def test_an_interruption_ends_it_with_a_line(body: str, said: str, tmp_path: Path) -> None:
    assert of_a_command(tmp_path, body) == (130, "", said)


def test_a_stopped_process_has_its_own_status(tmp_path: Path) -> None:
    term = "begin()\ntry: os.kill(os.getpid(), signal.SIGTERM)"
    assert of_a_command(tmp_path, f"{term}\nexcept ValueError: pass") == (
        143,
        "",
        "Error: interrupted.\n",
    )
    assert of_a_command(tmp_path, f"{term}\nexcept KeyboardInterrupt: sys.exit(130)") == (
        143,
        "",
        "",
    )


def test_what_is_over_is_not_interrupted_but_where_it_hangs(tmp_path: Path) -> None:
    end = "import atexit; begin(); atexit.register({}); print('found'); sys.exit(0)"
    assert of_a_command(tmp_path, end.format("press")) == (0, "found\n", "")
    # Pressed again and again, as whoever waits does.
    wait = "lambda: [(press(), time.sleep(0.1)) for _ in range(400)]"
    assert of_a_command(tmp_path, end.format(wait)) == (130, "found\n", "")


def test_what_python_takes_down_is_not_interrupted(tmp_path: Path) -> None:
    # A module's names are freed after Python gave up every handler.
    late = "begin(); Freed.__del__ = lambda self, kill=os.kill, me=os.getpid(): kill(me, 2)"
    body = f"{late}\nkept = Freed(); print('found'); sys.exit(0)"
    assert of_a_command(tmp_path, body) == (0, "found\n", "")


def test_threads_at_work_in_libraries_cannot_fault_after_an_interruption(tmp_path: Path) -> None:
    # What they use is taken down under them, as this is.
    late = "begin(); Freed.__del__ = lambda self, fault=ctypes.string_at: fault(0); kept = Freed()"
    press = "try: press(); time.sleep(50)\nexcept KeyboardInterrupt: print('found'); sys.exit(130)"
    assert of_a_command(tmp_path, f"{late}\n{press}") == (130, "found\n", "")


def test_an_event_takes_it_first(tmp_path: Path) -> None:
    body = "begin()\nwith interruptible() as e: press(); print(e.is_set())\nsys.exit(0)"
    assert of_a_command(tmp_path, body) == (0, "True\n", "")


def test_an_event_takes_a_stop_of_a_command_too(tmp_path: Path) -> None:
    stop = "os.kill(os.getpid(), signal.SIGTERM)"
    body = f"begin()\nwith interruptible() as e: {stop}; print(e.is_set())\nsys.exit(130)"
    assert of_a_command(tmp_path, body) == (143, "True\n", "")
    # The second one is raised; what is forked has no events.
    twice = f"begin()\nwith interruptible() as e: {stop}; print(1, flush=True); {stop}; print(2)"
    assert of_a_command(tmp_path, twice) == (143, "1\n", "Error: interrupted.\n")
    fork = (
        "begin()\nwith interruptible() as e:\n one = os.fork()\n"
        " if one == 0: time.sleep(50); os._exit(0)\n"
        " time.sleep(1)\n"  # Python forgets what came while it forked
        " os.kill(one, signal.SIGTERM); print(os.waitpid(one, 0)[1] >> 8)\nsys.exit(0)"
    )
    assert of_a_command(tmp_path, fork) == (0, "143\n", "")


def test_errors_and_complaints_without_an_interruption_are_shown(tmp_path: Path) -> None:
    status, _, said = of_a_command(tmp_path, "begin(); Complains(); raise ValueError('mine')")
    assert status == 1
    assert "AttributeError: half made" in said
    assert said.endswith("ValueError: mine\n")


def test_an_interruption_that_was_lost_is_delivered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is, nothing once the command is over, and what had no interruption is shown."""
    shown: list[Any] = []
    again: list[Any] = []
    monkeypatch.setattr(interrupts._thread, "start_new_thread", lambda _, of: again.append(of))
    process: Any = object.__new__(interrupts._CommandProcess)
    process._show = shown.append
    lost, other = SimpleNamespace(exc_type=KeyboardInterrupt), SimpleNamespace(exc_type=ValueError)
    for number, over, came, expected in (
        (None, None, lost, ([lost], [])),
        (2, None, lost, ([], [(2,)])),
        (15, None, lost, ([], [(15,)])),
        (2, None, other, ([], [])),
        (2, 7.0, lost, ([], [])),
        (2, 7.0, other, ([], [])),
    ):
        shown.clear()
        again.clear()
        process.signal, process._over_at = number, over
        process._unraisable(came)
        assert (shown, again) == expected


def test_a_fork_ends_without_a_word(tmp_path: Path) -> None:
    fork = "begin()\nif os.fork() == 0: press(); print('lives')\nos.wait(); sys.exit(0)"
    assert of_a_command(tmp_path, fork) == (0, "", "")


def test_where_interruptions_are_ignored_they_stay_so(tmp_path: Path) -> None:
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    body = "begin(); press(); print('lives'); sys.exit(0)"
    assert of_a_command(tmp_path, body, ignored) == (0, "lives\n", "")


def test_what_imports_the_project_keeps_its_handlers() -> None:
    code = """
import signal, sys
before = [signal.getsignal(n) for n in (2, 15)], sys.unraisablehook
import mapspace, orchestrator.cli, orchestrator.__main__
mapspace.search("gemm:M=4,N=4,K=2", store=False)
assert ([signal.getsignal(n) for n in (2, 15)], sys.unraisablehook) == before
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def processor_seconds(process: int) -> float:
    """What a process has taken so far; inf where it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stopped(folder: Path, words: list[str], at: float, *, terminal: bool) -> tuple[int, str]:
    """Presses Ctrl-C when a command has taken so much processor time; its status and words.

    A terminal sends it to all of a command's processes, `kill` to one.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and processor_seconds(process.pid) < at:
        time.sleep(0.005)
    if process.poll() is None:
        (os.killpg if terminal else os.kill)(process.pid, signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output + errors


# What is called, the processor seconds that it takes, and at how many moments it is stopped.
COMMANDS = {
    "help": (["--help"], 0.6, 6),
    "search": (["search", "resnet-conv4", "--accelerator", "eyeriss", "--no-store"], 2.5, 14),
    "pareto": (["pareto", "gemm-512", "--no-store"], 2.5, 14),
    "sweep": (["sweep", "sweep-smoke", "--no-store", "--output", "sweep"], 5.0, 13),
    "benchmark": (["benchmark", "smoke", "--no-store", "--output", "benchmark"], 7.0, 13),
}
# Python itself, before anything of ours runs, and half as much again.
EARLIEST = 0.06
CONTINUES = ("sweep", "benchmark")


def press_at_moments(name: str, count: int, seed: int, folder: Path) -> None:
    """Stops a command at random moments, in one folder; then it ends well."""
    words, longest, _ = COMMANDS[name]
    rng = random.Random(seed)
    for _ in range(count):
        at = rng.uniform(EARLIEST, longest)
        status, said = stopped(folder, words, at, terminal=rng.random() < 0.5)
        assert status in (0, 130), (at, said)
        assert "Traceback" not in said, (at, said)
        assert "Exception ignored" not in said, (at, said)
        if status == 130:
            assert said.strip().splitlines()[-1].startswith("Error: interrupted"), (at, said)
    if name in CONTINUES:
        status, said = stopped(folder, words, float("inf"), terminal=False)
        assert status == 0, said


@pytest.mark.parametrize("name", ["help", "search"])
def test_a_few_moments_of_a_command(name: str, tmp_path: Path) -> None:
    press_at_moments(name, 3, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", COMMANDS)
def test_sixty_moments_of_five_commands(name: str, tmp_path: Path) -> None:
    press_at_moments(name, COMMANDS[name][2], 1, tmp_path)
