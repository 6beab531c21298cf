"""`mapspace`, and `python -m orchestrator`: minds Ctrl-C before anything else is imported."""

import os
import signal


def main() -> None:
    """Runs the command line in a process of its own (`orchestrator.cli.main`)."""
    # What follows is imported in a twentieth of a second, in which nobody catches an interruption.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end_at_once)
    from orchestrator.runs.interrupts import command_process

    with command_process() as begin:
        from orchestrator.cli import main as command_line

        begin()
        command_line()


def _end_at_once(number: int, _: object) -> None:
    os.write(2, b"Error: interrupted.\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
