"""An experiment as a job of a Ray cluster, by Ray's client: submitted, followed, brought home."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mapspace.errors import ConfigError, MapspaceError
from mapspace.extras import require
from mapspace.storage import Place, RemotePath, place
from mapspace.strict_yaml import load_yaml
from orchestrator.runs.command import report
from orchestrator.runs.experiments import find_experiment, load_experiment
from orchestrator.runs.kinds import kind_names
from orchestrator.runs.locations import local_copy
from orchestrator.runs.run_folder import experiment_of, say
from orchestrator.schemas.runs import JobAnswer

# Between two looks at a job whose log was cut off.
LOOK_SECONDS = 2.0


def submit_job(
    source: str,
    output: Place,
    *,
    address: str,
    name: str | None = None,
    tracking_uri: str | None = None,
    echo: Callable[..., None] = click.echo,
) -> JobAnswer:
    """Runs an experiment as a job of a cluster, and waits for it.

    Args:
        source: a YAML file, its URI or a shipped experiment's name. The YAML files beside it go
            with it.
        output: the run folder: a URI, or an absolute path that all nodes share.
        address: of the cluster's job server, such as http://127.0.0.1:8265.
        name: of the job; None: the experiment's, and when.
        tracking_uri: MLflow as the cluster reaches it; None: what the kind of run has by itself.
        echo: takes the job's log and the closing lines, as click's does.

    Returns:
        Where the results are.

    Raises:
        ConfigError: the experiment is wrong, or nodes would not share the run folder.
        MapspaceError: the cluster cannot be reached, or the job failed or was stopped.
        KeyboardInterrupt: while it is followed; it says that the job goes on, and how to see it.
    """
    require(("ray",))
    if isinstance(output, Path) and not output.is_absolute():
        raise ConfigError(
            f"--output: expected a URI, or an absolute path that all nodes share, got {output}: a "
            "job's own folder goes with its cluster."
        )
    path = find_experiment(source)
    named = str(load_yaml(path).get("kind"))
    if named not in kind_names():
        raise ConfigError(f"{path}: kind: expected {' or '.join(kind_names())}, got {named!r}.")
    found = experiment_of(named)
    config: Any = load_experiment(path, found.config)
    own = place(source) == path  # not one that is shipped or lies at a URI
    command = ["mapspace", found.command, path.name if own else source, "--output", str(output)]
    command += ["--tracking-uri", tracking_uri] if tracking_uri else []
    name = name or f"{config.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    with _told(address):
        client = _submitted(address, name, command, path if own else None)
        say(f"job {name} at {address}: {shlex.join(command)}")
        try:
            status = asyncio.run(_followed(client, name, echo))
        except KeyboardInterrupt:
            at = f"--address {address} {name}"
            raise KeyboardInterrupt(
                f"job {name} goes on: `ray job logs --follow {at}` shows it, `ray job stop {at}` "
                "ends it, and then the same command continues what is resumable"
            ) from None
        message = client.get_job_info(name).message
    again = "the same command continues what is resumable"
    if status == "STOPPED":
        raise MapspaceError(f"job {name} was stopped; {again}.")
    if status != "SUCCEEDED":
        why = str(message).partition(", last available logs")[0]
        raise MapspaceError(f"job {name}: {status}: {why}; {again}.")
    here, page = _brought_home(output, found.command)
    for what, file in (("here", here), ("page", page)):
        if file:
            echo(f"{what:<8} {file}")
    return {"job": name, "output": str(output), "here": here, "page": page}


def _submitted(address: str, name: str, command: list[str], file: Path | None) -> Any:
    """Ray's client of a cluster, which has a job now."""
    from ray.job_submission import JobSubmissionClient

    client = JobSubmissionClient(address)
    with tempfile.TemporaryDirectory() as folder:
        for own in file.parent.glob("*.y*ml") if file else ():
            shutil.copy(own, folder)
        client.submit_job(
            entrypoint=shlex.join(command),
            submission_id=name,
            runtime_env={"working_dir": folder} if file else {},
        )
    return client


async def _followed(client: Any, name: str, echo: Callable[..., None]) -> str:
    """How a job ended, after all that it says."""
    said = 0
    while True:
        with contextlib.suppress(RuntimeError, OSError):  # it is asked again
            seen = 0
            async for text in client.tail_job_logs(name):
                seen += len(text)
                if seen > said:
                    echo(text[said - seen :], nl=False)
                    said = seen
        status = str(client.get_job_status(name).value)
        if status in ("STOPPED", "SUCCEEDED", "FAILED"):
            return status
        await asyncio.sleep(LOOK_SECONDS)


def _brought_home(output: Place, command: str) -> tuple[str | None, str | None]:
    """The copy of what lies at a URI, but for data sets, and the page of a benchmark."""
    if not isinstance(output, RemotePath) or command == "generate":
        return None, None
    copy = str(local_copy(output, lambda name: True))
    return copy, str(report(output)) if command == "benchmark" else None


@contextmanager
def _told(address: str) -> Iterator[None]:
    """What a cluster's job server refuses, or that it is not there, as one line."""
    # Ray tells of every package that it sends and of every log that ends.
    logging.disable(logging.INFO)
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        raise MapspaceError(f"Ray at {address!r}: {' '.join(str(error).split())[:400]}") from error
    finally:
        logging.disable(logging.NOTSET)
