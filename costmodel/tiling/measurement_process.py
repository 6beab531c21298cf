"""The process that measures tilings, requests on its input.

`python -m costmodel.tiling.measurement_process`.

It imports TVM once, then forks: the fork builds and runs, and is killed when it takes too long. A
new fork costs milliseconds where a new interpreter would import TVM for seconds. One line of JSON
per request comes in, one per answer goes out; the first line out says that the worker is ready.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from typing import Any, TextIO

from costmodel.tiling.measurement import (
    STATUS_RUN_FAILED,
    STATUS_TIMED_OUT,
    Measurement,
    Request,
)
from costmodel.tiling.measurement_runner import without_torch


class Fork:
    """A copy of this process that measures one request after another until it dies."""

    def __init__(self) -> None:
        requests_out, requests_in = os.pipe()
        answers_out, answers_in = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                os.close(requests_in)
                os.close(answers_out)
                with open(requests_out) as requests, open(answers_in, "w") as answers:
                    _serve(requests, answers)
            finally:
                os._exit(0)
        os.close(requests_out)
        os.close(answers_in)
        self._requests = open(requests_in, "w")  # noqa: SIM115
        self._answers = open(answers_out)  # noqa: SIM115

    def ask(self, line: str, time_limit: float) -> str:
        """The answer to a request, in time.

        Raises:
            TimeoutError: there was none in time.
            EOFError: the fork has died.
        """
        self._requests.write(line)
        self._requests.flush()
        ready, _, _ = select.select([self._answers], [], [], time_limit)
        if not ready:
            raise TimeoutError
        answer = self._answers.readline()
        if not answer.endswith("\n"):
            raise EOFError
        return answer

    def end(self) -> str:
        """Kills the fork if it lives; names the signal that it died of, this one or another."""
        os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        self._requests.close()
        self._answers.close()
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "itself"


def _serve(requests: TextIO, answers: TextIO) -> None:
    from costmodel.tiling import build_and_time

    for line in requests:
        fields = json.loads(line)
        request = Request.from_json(fields["request"])
        os.sched_setaffinity(0, {fields["core"]})
        # Only here: a GPU's driver does not survive a fork.
        problem = build_and_time.missing(request.settings.target)
        _write(
            answers, {"error": problem} if problem else build_and_time.measure(request).to_json()
        )


def main() -> None:
    """Serves requests until its input ends."""
    # What libraries print must not reach the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        with without_torch():
            from costmodel.tiling import build_and_time  # noqa: F401
    except Exception as error:
        _write(answers, {"error": f"TVM cannot be imported: {error}"})
        return
    _write(answers, {"ready": True})
    fork: Fork | None = None
    for line in sys.stdin:
        limit = Request.from_json(json.loads(line)["request"]).settings.time_limit
        fork = fork or Fork()
        try:
            answers.write(fork.ask(line, limit))
            answers.flush()
        except TimeoutError:
            fork.end()
            fork = None
            failed = Measurement(STATUS_TIMED_OUT, explanation=f"took over {limit:g} s in all")
            _write(answers, failed.to_json())
        except EOFError:
            cause = fork.end()
            fork = None
            failed = Measurement(STATUS_RUN_FAILED, explanation=f"the process died of {cause}")
            _write(answers, failed.to_json())
    if fork is not None:
        fork.end()


def _write(answers: TextIO, fields: dict[str, Any]) -> None:
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
