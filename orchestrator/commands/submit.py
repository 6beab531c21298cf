"""`mapspace submit`: an experiment as a job of a Ray cluster."""

from __future__ import annotations

import functools

import click

from mapspace.storage import Place
from orchestrator.commands.options import PLACE, OnceEach
from orchestrator.schemas.json_text import answer_text


@click.command(cls=OnceEach)
@click.argument("experiment")
@click.option(
    "--address",
    envvar="RAY_API_SERVER_ADDRESS",
    default="http://127.0.0.1:8265",
    show_default=True,
    help="The cluster's job server; also RAY_API_SERVER_ADDRESS.",
)
@click.option("--output", type=PLACE, required=True, help="A URI, or a path that all nodes share.")
@click.option("--id", "name", help="What the job is called; else the experiment's name and when.")
@click.option("--tracking-uri", help="MLflow as the cluster reaches it; else beside the results.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
def submit(
    experiment: str,
    address: str,
    output: Place,
    name: str | None,
    tracking_uri: str | None,
    as_json: bool,
) -> None:
    """Runs EXPERIMENT (a YAML file or a shipped one's name) as a job of a Ray cluster.

    Prints the job's id, follows its log and, where --output is a URI, brings the results here, but
    for data sets. The same command again continues a job that failed or was stopped. Ctrl-C leaves
    the job alone. YAML files beside EXPERIMENT go with it.
    """
    from orchestrator.runs.job import submit_job

    echo = functools.partial(click.echo, err=as_json)
    answer = submit_job(
        experiment, output, address=address, name=name, tracking_uri=tracking_uri, echo=echo
    )
    if as_json:
        click.echo(answer_text(answer))
