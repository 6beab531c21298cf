"""`mapspace watch`: how a run stands, as a live page or as JSON."""

from __future__ import annotations

import click

from mapspace.storage import Place, RemotePath
from orchestrator.commands.options import PLACE, OnceEach
from orchestrator.report.text_table import fitted
from orchestrator.schemas.json_text import answer_text

# Between two looks at the files.
LOOK_SECONDS, REMOTE_LOOK_SECONDS = 1.0, 5.0


@click.command(cls=OnceEach)
@click.argument("run", type=PLACE)
@click.option("--port", type=click.IntRange(0, 65535), help="0: any; else the first free of 8770.")
@click.option("--once", is_flag=True, help="Print how it stands, and end.")
@click.option("--json", "as_json", is_flag=True, help="Print how it stands as JSON, and end.")
def watch(run: Place, port: int | None, once: bool, as_json: bool) -> None:
    """Shows the run folder RUN live, on a page for a browser of this machine, until Ctrl-C.

    A folder of several runs shows all of them. Only files are read: a run does not notice, and a
    run on another machine can be watched where its folder is shared or a URI. Over SSH: ssh -t -L
    8770:127.0.0.1:8770 HOST mapspace watch RUN --port 8770, and open http://127.0.0.1:8770 here.
    """
    from orchestrator.watch.state import check_folder, folder_state
    from orchestrator.watch.text import state_text

    check_folder(run)
    if once or as_json:
        state = folder_state(run)
        click.echo(answer_text(state) if as_json else fitted(state_text(state)))
        return
    from orchestrator.watch.server import Latest, open_server

    seconds = REMOTE_LOOK_SECONDS if isinstance(run, RemotePath) else LOOK_SECONDS
    latest = Latest(lambda: folder_state(run), seconds)
    with open_server(latest, port) as server:
        # The first look takes longest: a page that is opened at once need not wait for it.
        latest.get()
        click.echo(f"{run}: {server.url} (Ctrl-C ends it)")
        server.serve_forever(poll_interval=0.2)
