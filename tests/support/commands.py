"""Commands as a user calls them, in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from orchestrator.cli import main


def call(*arguments: object) -> int:
    """Runs a command; its exit status."""
    with pytest.raises(SystemExit) as done:
        main([str(argument) for argument in arguments])
    assert isinstance(done.value.code, int)
    return done.value.code


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command that succeeds prints."""
    capsys.readouterr()
    status = call(*arguments)
    output = capsys.readouterr()
    assert status == 0, output.err
    return output.out


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """What a command that succeeds prints as JSON."""
    return json.loads(printed(capsys, *arguments, "--json"))


def interrupted(
    said: str, *arguments: str, before: Sequence[str] = (), later: float = 0.0
) -> tuple[int, str, str]:
    """Runs a command in a process of its own, and sends it what Ctrl-C sends.

    Args:
        said: comes then, in a line on standard error.
        arguments: of the command line.
        before: what starts the command.
        later: seconds after the line.

    Returns:
        The exit status, standard output, and the rest of standard error.
    """
    command = [*before, sys.executable, "-m", "orchestrator", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    next(line for line in process.stderr if said in line)
    time.sleep(later)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors
