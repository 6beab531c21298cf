"""The command `mapspace import`. It imports what it needs itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mapspace.errors import ConfigError
from orchestrator.commands.options import PLACE, OnceEach, check_folder, write_text
from orchestrator.report.text_table import fitted

if TYPE_CHECKING:
    from mapspace.storage import Place


@click.command("import", cls=OnceEach)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--lenient",
    "--skip-unknown",
    is_flag=True,
    help="Leave out what is not modelled, and list it.",
)
@click.option(
    "--hardware",
    type=click.Path(path_type=Path),
    help="MAESTRO's hardware file: FILE's dataflows become mapping records.",
)
@click.option(
    "--word-bits", type=click.IntRange(1, 1024), help="Of AccelForge's architectures: of a value."
)
@click.option(
    "--architecture",
    type=click.Path(path_type=Path),
    help="AccelForge's: FILE is a mapping, its file or the line that its search printed.",
)
@click.option("--workload", help="With --architecture: AccelForge's file, or as `search` takes it.")
@click.option(
    "--batch",
    type=click.IntRange(1),
    help="Of ONNX: of inputs' open first axes; of AccelForge: BATCH_SIZE.",
)
@click.option("--sequence", type=click.IntRange(1), help="Of ONNX: of their open second axes.")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="AXIS=N",
    help="Of ONNX: of an open axis, by name or place (height=320, images.2=320); also the value of "
    "an input that is one number (sr=16000).",
)
@click.option("-o", "--output", type=PLACE, help="Else standard output.")
@click.option("--json", "as_json", is_flag=True, help="Print the text in a JSON object.")
def import_(
    file: Path,
    lenient: bool,
    hardware: Path | None,
    word_bits: int | None,
    architecture: Path | None,
    workload: str | None,
    output: Place | None,
    as_json: bool,
    **sizes: Any,
) -> None:
    """Reads another tool's FILE, and writes what it says as a file of this one.

    An ONNX model (.onnx), a network of MAESTRO (.m), a topology of SCALE-Sim (.csv) or a workload
    of ZigZag or AccelForge (YAML) becomes a network for `search --network`, an architecture of
    AccelForge a machine; with --hardware the mappings of MAESTRO's file become records for
    `evaluate --model maestro`, with --architecture and --workload those of AccelForge. What has no
    effect and what is left out is listed on standard error. `check` says what a file is.
    """
    from orchestrator.records.importing import (
        imported,
        imported_answer,
        imported_mappings,
        imported_onnx,
    )

    if output is not None:
        check_folder(output)
    if (architecture is None) != (workload is None):
        raise click.UsageError("Expected --architecture and --workload together.")
    if architecture is not None and hardware is not None:
        raise click.UsageError("Expected either --architecture or --hardware.")
    if file.suffix.lower() == ".onnx":
        if any(one is not None for one in (hardware, word_bits, architecture)):
            raise click.UsageError(
                "ONNX models have --batch, --sequence, --size and --skip-unknown alone."
            )
        text = imported_onnx(file, lenient=lenient, sizes=_sizes(sizes.pop("sizes")), **sizes)
    elif sizes["sequence"] is not None or sizes["sizes"]:
        raise click.UsageError("--sequence and --size are for ONNX models (.onnx).")
    elif architecture is not None and workload is not None:
        text = imported_answer(file, architecture, word_bits, workload, batch=sizes["batch"])
    elif hardware is None:
        text = imported(file, lenient=lenient, word_bits=word_bits, batch=sizes["batch"])
    elif sizes["batch"] is not None:
        raise click.UsageError("--batch is for ONNX and AccelForge's files.")
    else:
        text = imported_mappings(file, hardware, lenient=lenient)
    write_text(text, output, as_json)


@click.command(cls=OnceEach)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="AXIS=N",
    help="Of ONNX: of an open axis, as `import`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the text in a JSON object.")
def check(files: tuple[Path, ...], sizes: tuple[str, ...], as_json: bool) -> None:
    """Says what FILES are, and what of them would be modelled and what not, without searching.

    Files of any tool that `import` reads, Timeloop's (together, as --timeloop takes them),
    machines, networks and workloads. Ends with 2 where one is refused.
    """
    from orchestrator.records.checking import check as checked

    found = checked(files, _sizes(sizes))
    write_text(found.text if as_json else f"{fitted(found.text)}\n", None, as_json)
    if found.wrong:
        raise click.exceptions.Exit(2)


def _sizes(entries: tuple[str, ...]) -> dict[str, int]:
    """Sizes by axis from texts such as height=320."""
    found: dict[str, int] = {}
    for entry in entries:
        name, _, size = entry.rpartition("=")
        if not name or not size.isdecimal() or len(size) > 18 or name in found:
            raise ConfigError(f"--size: expected AXIS=N once per axis, got {entry!r}.")
        found[name] = int(size)
    return found
