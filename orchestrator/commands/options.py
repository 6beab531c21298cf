"""Options that several commands share, how they are read, and what is checked before any work."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mapspace.bounded_reading import LARGEST_FILE, open_file
from mapspace.errors import ConfigError
from mapspace.near_names import meant
from mapspace.storage import Place, check_writable, write_atomically
from mapspace.strict_yaml import load_yaml
from orchestrator.runs.locations import PlaceParam
from orchestrator.schemas.json_text import answer_text


class OneOf(click.Choice[str]):
    """One of a few words; a wrong one is told which it may have been."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """What was expected and what came."""
        return (
            f"expected one of {', '.join(self.choices)}, got {value!r}{meant(value, self.choices)}"
        )


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
    type=OneOf(("timeloop", "true")),
    help="Of remainders: as Timeloop, or every element by itself; else as the machine says.",
)


def _bits(
    context: click.Context, option: click.Parameter, text: str | None
) -> dict[str, int] | None:
    if text is None:
        return None
    from costmodel.problems.bits import read_bits

    return read_bits(text)


AXES = click.option(
    "--axes",
    type=OneOf(("one", "both")),
    help="Axes of a mesh that one dimension may run along at once; else as the machine says.",
)


TILES = click.option(
    "--tiles",
    type=OneOf(("together", "apart")),
    help="Tensors of one level at one place in the nest or each its own; else as the machine says.",
)


LINKS = click.option(
    "--link-transfers/--no-link-transfers",
    default=None,
    help="Neighbours hand words to each other, or not; else as the machine says, as in Timeloop.",
)


BITS = click.option(
    "--bits",
    metavar="TENSOR=BITS,...",
    callback=_bits,
    help="Bits of a value by tensor or role, such as weights=4,inputs=8; else one word.",
)


def _set_hyperparameters(
    context: click.Context, option: click.Parameter, entries: tuple[str, ...]
) -> dict[str, Any] | None:
    """Hyperparameters by name from texts such as population=64; values are written as in YAML."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or not name.isidentifier() or not value or name in found:
            raise ConfigError(f"--set: expected NAME=VALUE once per name, got {entry!r}.")
        found[name] = load_yaml(f"--set {name}", text=f"{name}: {value}")[name]
    return found or None


def with_hyperparameters(function: Callable[..., None]) -> Callable[..., None]:
    """A command with `--preset` and `--set`, which it has as `preset` and `parameters`."""
    for add in (
        click.option(
            "--set",
            "parameters",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_set_hyperparameters,
            help="A hyperparameter of the searcher; `mapspace describe searcher NAME` lists them.",
        ),
        click.option("--preset", help="Hyperparameters of the searcher by name, such as paper."),
    ):
        function = add(function)
    return function


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
    """A command that says all of its options that are wrong, where click would say the first.

    An option given twice is refused, where click would take the last in silence.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments.

        Raises:
            click.UsageError: an option that takes one value is given twice, or values that are not
                allowed.
        """
        seen: set[str | None] = set()
        for option, texts in self._parts(ctx, args):
            if option is not None and option.name in seen and not option.multiple:
                name = texts[0].partition("=")[0]
                raise click.UsageError(f"{name}: expected once, got it twice.", ctx)
            seen.add(None if option is None else option.name)
        given, said = list(args), list[str]()
        while True:
            try:
                # It takes what it parses from the list.
                rest = super().parse_args(ctx, list(given))
            except click.MissingParameter:
                if said:
                    break
                raise
            except click.BadParameter as error:
                left = [
                    text
                    for option, texts in self._parts(ctx, given)
                    if option is None or option is not error.param
                    for text in texts
                ]
                said.append(error.format_message())
                if left == given:
                    break
                given = left
            else:
                if not said:
                    return rest
                break
        raise click.UsageError(" ".join(said), ctx)

    def _parts(
        self, ctx: click.Context, args: Sequence[str]
    ) -> Iterator[tuple[click.Option | None, list[str]]]:
        """The arguments, an option's name and value together, with the option."""
        options = {
            name: option
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag and not option.count
            for name in option.opts
        }
        rest = iter(args)
        for text in rest:
            name, equals, _ = text.partition("=")
            option = options.get(name)
            if text == "--":
                yield None, [text, *rest]
            elif option is None or equals:
                yield option, [text]
            else:  # its value may look like an option
                yield option, [text, *itertools.islice(rest, 1)]

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
    """Refuses a file that cannot be written, before any work.

    Raises:
        ConfigError: there is no such folder, or no permission to write there.
    """
    if not isinstance(file, Path):
        return
    if not file.parent.is_dir():
        if file.parent.exists():
            raise ConfigError(f"{file}: {file.parent} is a file, and no folder.")
        raise ConfigError(f"{file}: the folder {file.parent} does not exist.")
    check_writable(file)


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
        if not _start(output).startswith(b"mapping:"):
            raise ConfigError(f"{output}: exists and holds no mapping; give another name.")
        check_folder(output)
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
    if not _holds(_start(output), keys):
        raise ConfigError(
            f"{output}: expected a new file or one of {what}, found something else; remove it or "
            "choose another --output."
        )


def _start(output: Place) -> bytes:
    """The content of a file, or as much of it as tells what it holds."""
    if not isinstance(output, Path):
        return output.read_start(LARGEST_FILE)
    with open_file(output, ConfigError) as file:
        return file.read(LARGEST_FILE)


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
    if not 0 <= share <= 1:
        raise ConfigError(f"--gap: expected a share of 0 to 1 such as 1% or 0.01, got {text!r}.")
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


def problem_asked(
    words: Sequence[str], accelerator: str, *, timeloop: bool, lenient: bool
) -> tuple[Any, Any]:
    """The workload and the machine of a command: by name, or of Timeloop's files.

    Raises:
        UsageError: none or several workloads, or an accelerator beside Timeloop's.
        ConfigError: Timeloop's files that cannot be read.
    """
    check_timeloop(timeloop, lenient, words)
    if not timeloop:
        if not words:
            raise click.UsageError("Missing argument 'WORKLOAD'.")
        if len(words) > 1:
            raise click.UsageError(f"Got unexpected extra argument ({words[1]})")
        return words[0], accelerator
    refuse_accelerator()
    from orchestrator.records.timeloop_files import read_files

    return read_files(words, lenient=lenient).problem()


def refuse_accelerator() -> None:
    """Refuses --accelerator beside --timeloop.

    Raises:
        UsageError: it was given.
    """
    default = click.core.ParameterSource.DEFAULT
    if click.get_current_context().get_parameter_source("accelerator") is not default:
        raise click.UsageError("--accelerator: Timeloop's files say the machine.")
