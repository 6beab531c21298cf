"""The command `mapspace import`. It imports what it needs itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchestrator.commands.options import PLACE, OnceEach, check_folder, write_text

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
    **sizes: int | None,
) -> None:
    """Reads another tool's FILE, and writes what it says as a file of this one.

    An ONNX model (.onnx), a network of MAESTRO (.m) or a workload of ZigZag or AccelForge (YAML)
    becomes a network for `search --network`, an architecture of AccelForge a machine; with
    --hardware the mappings of MAESTRO's file become records for `evaluate --model maestro`, with
    --architecture and --workload those of AccelForge. What has no effect and what is left out is
    listed on standard error.
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
            raise click.UsageError("ONNX models have --batch, --sequence and --skip-unknown alone.")
        text = imported_onnx(file, lenient=lenient, **sizes)
    elif sizes["sequence"] is not None:
        raise click.UsageError("--sequence is for ONNX models (.onnx).")
    elif architecture is not None and workload is not None:
        text = imported_answer(file, architecture, word_bits, workload, batch=sizes["batch"])
    elif hardware is None:
        text = imported(file, lenient=lenient, word_bits=word_bits, batch=sizes["batch"])
    elif sizes["batch"] is not None:
        raise click.UsageError("--batch is for ONNX and AccelForge's files.")
    else:
        text = imported_mappings(file, hardware, lenient=lenient)
    write_text(text, output, as_json)
