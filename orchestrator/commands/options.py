"""Options that several commands share, how they are read, and what is checked before any work."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from mapspace.errors import ConfigError
from mapspace.storage import Place, write_atomically
from orchestrator.runs.locations import PlaceParam
from orchestrator.schemas.json_text import answer_text

PLOT_SUFFIX = ".png"
PLACE = PlaceParam()
TIMELOOP = click.option(
    "--timeloop", is_flag=True, help="The arguments are Timeloop's input files (YAML, .cfg)."
)
LENIENT = click.option(
    "--lenient", is_flag=True, help="With --timeloop: leave out what is not modelled, and list it."
)


COUNTING = click.option(
    "--counting",
    type=click.Choice(("timeloop", "true")),
    help="Of remainders: as Timeloop, or every element by itself; else as the machine says.",
)


def with_store(function: Callable[..., None]) -> Callable[..., None]:
    """A command with `--store` and `--no-store`, which takes what they come to as `store`."""

    @functools.wraps(function)
    def command(*arguments: Any, store: str | None, no_store: bool, **options: Any) -> None:
        from orchestrator.store.choice import chosen

        if store is not None and no_store:
            raise click.UsageError("Expected either --store or --no-store, got both.")
        if store == "":
            raise ConfigError("--store: expected a path or a URI, got nothing; see --no-store.")
        found = chosen(False if no_store else store)
        function(*arguments, store=found, **options)

    for add in (
        click.option("--no-store", is_flag=True, help="Read nothing from a store, keep nothing."),
        click.option(
            "--store",
            metavar="PATH|URI",
            help="Where answers are kept and looked for; else MAPSPACE_STORE, else the user's own.",
        ),
    ):
        command = add(command)
    return command


# What every mapping record holds, and every certificate.
_RECORD_KEYS = {"problem", "mapping"}
_TILING_KEYS = {"workload", "tiling"}
_CERTIFICATE_KEYS = {"format", "record"}
_NETWORK_CERTIFICATE_KEYS = {"format", "network", "cuts"}


class OnceEach(click.Command):
    """A command that refuses an option given twice, where click would take the last in silence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments.

        Raises:
            click.UsageError: an option that takes one value is given twice.
        """
        options = {
            name: option
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
            for name in option.opts
            if not option.is_flag and not option.multiple and not option.count
        }
        seen: set[str | None] = set()
        rest = iter(args)
        for text in rest:
            if text == "--":
                break
            name, equals, _ = text.partition("=")
            if name not in options:
                continue
            if options[name].name in seen:
                raise click.UsageError(f"{name}: expected once, got it twice.", ctx)
            seen.add(options[name].name)
            if not equals:
                next(rest, None)  # its value, which may look like an option
        return super().parse_args(ctx, args)

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence of the help, whole: lists of commands wrap it."""
        return super().get_short_help_str(max(limit, 1000))


class Commands(click.Group):
    """Commands whose options are given once each."""

    command_class = OnceEach


def check_plot(plot: Place, *further: str) -> None:
    """Refuses a file that no plot can be written to.

    Args:
        plot: the file.
        further: what its name may end in beside `.png`.

    Raises:
        ConfigError: it is no PNG file, or there is no such folder.
    """
    suffixes = (PLOT_SUFFIX, *further)
    if not plot.name.lower().endswith(suffixes):
        raise ConfigError(f"{plot}: expected a plot's name to end in {' or '.join(suffixes)}.")
    check_folder(plot)


HTML = click.option(
    "--html", "page", type=PLACE, help="Also write a page with drawings, one file for browsers."
)


def check_page(page: Place | None) -> None:
    """Refuses a file that no page can be written to.

    Raises:
        ConfigError: its name does not end in `.html`, or there is no such folder.
    """
    if page is None:
        return
    if not page.name.lower().endswith((".html", ".htm")):
        raise ConfigError(f"{page}: expected a page's name to end in .html.")
    check_folder(page)


def check_folder(file: Place) -> None:
    """Refuses a file whose folder is not there.

    Raises:
        ConfigError: there is no such folder.
    """
    if isinstance(file, Path) and not file.parent.is_dir():
        raise ConfigError(f"{file}: the folder {file.parent} does not exist.")


def write_text(text: str, output: Place | None, as_json: bool) -> None:
    """Writes a file for somebody, or prints it; as JSON in either case where that is asked for."""
    if output is not None:
        write_atomically(output, text.encode())
    if as_json:
        click.echo(answer_text({"text": text, "output": None if output is None else str(output)}))
    elif output is None:
        click.echo(text, nl=False)


def check_records_output(output: Place) -> None:
    """Refuses to write mapping records over something else.

    Raises:
        ConfigError: there is a file that holds no mapping records (of YAML: no mapping), or no
            folder for it.
    """
    if isinstance(output, Path) and output.suffix in (".yaml", ".yml") and output.is_file():
        if not output.read_bytes().startswith(b"mapping:"):
            raise ConfigError(f"{output}: exists and holds no mapping; give another name.")
        return
    _check_output(output, _RECORD_KEYS, "mapping records")


def check_tiling_output(output: Place) -> None:
    """Refuses to write the record of a tiling over something else.

    Raises:
        ConfigError: there is a file that holds none.
    """
    _check_output(output, _TILING_KEYS, "records of tilings")


def check_certificate_output(output: Place) -> None:
    """Refuses to write a certificate over something else.

    Raises:
        ConfigError: there is a file that holds no certificate.
    """
    _check_output(output, _CERTIFICATE_KEYS, "a certificate")


def check_network_certificate_output(output: Place) -> None:
    """Refuses to write the certificate of a network over something else.

    Raises:
        ConfigError: there is a file that holds no such certificate.
    """
    _check_output(output, _NETWORK_CERTIFICATE_KEYS, "a network's certificate")


def _check_output(output: Place, keys: set[str], what: str) -> None:
    check_folder(output)
    if output.is_dir():
        raise ConfigError(f"{output}: expected a file for {what}, found a folder.")
    # Devices and pipes, such as /dev/stdout, hold nothing that could be lost.
    if not output.exists() or (isinstance(output, Path) and not output.is_file()):
        return
    if not _holds(output.read_bytes(), keys):
        raise ConfigError(
            f"{output}: expected a new file or one of {what}, found something else; remove it or "
            "choose another --output."
        )


def _holds(content: bytes, keys: set[str]) -> bool:
    """Whether a file is empty, one JSON object with some keys, or lines of such objects."""
    text = content.decode(errors="replace").strip()
    for candidate in (text, text.partition("\n")[0]):
        try:
            found: Any = json.loads(candidate or "null")
        except (ValueError, RecursionError):
            continue
        if found is None and not text:
            return True
        return isinstance(found, dict) and keys <= found.keys()
    return False


def share_of(text: str) -> float:
    """A share such as 1% or 0.01.

    Raises:
        ConfigError: it is none, or below 0.
    """
    number = text.strip().removesuffix("%").strip()
    per_cent = text.strip().endswith("%")
    try:
        share = float(number) / (100 if per_cent else 1)
    except ValueError:
        share = -1.0
    if 1 < share < float("inf") and not per_cent:
        raise ConfigError(
            f"--gap: expected a share of 0 to 1 or per cent, got {text!r}; did you mean {number}%?"
        )
    if not 0 <= share < float("inf"):
        raise ConfigError(f"--gap: expected a share of 0 or more such as 1% or 0.01, got {text!r}.")
    return share


def pair_of(text: str, option: str = "surface") -> tuple[str, str]:
    """Two names of an option from a text such as K,N or order.L2,keep.L1.

    Raises:
        ConfigError: there are not two.
    """
    first, comma, second = (part.strip() for part in text.partition(","))
    if not first or not comma or not second:
        raise ConfigError(f"--{option}: expected two attributes such as K,N, got {text!r}.")
    return first, second


def tensors_by_level(entries: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
    """Tensors by level from texts such as L1=Weights,Outputs (L1= for none).

    Raises:
        ConfigError: an entry has another form, or a level is given twice.
    """
    kept: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        level, equals, tensors = entry.partition("=")
        if not equals or not level or level in kept:
            raise ConfigError(
                f"--keep: expected LEVEL=TENSOR,TENSOR once per level, got {entry!r}."
            )
        kept[level] = tuple(name.strip() for name in tensors.split(",") if name.strip())
    return kept or None


def fail(message: str, status: int) -> int:
    """Says on standard error in one line why a command ends, with which status."""
    click.echo(f"Error: {' '.join(message.split())}", err=True)
    return status


def check_timeloop(timeloop: bool, lenient: bool, arguments: Sequence[str]) -> None:
    """Refuses --timeloop without files, and --lenient without --timeloop.

    Raises:
        UsageError: one of them.
    """
    if timeloop and not arguments:
        raise click.UsageError("--timeloop needs files: architecture, problem and perhaps more.")
    if lenient and not timeloop:
        raise click.UsageError("--lenient is for --timeloop.")
