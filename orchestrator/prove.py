"""`mapspace verify` and `mapspace pareto`: proofs beyond the search for one mapping."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from costmodel.errors import ConfigError
from orchestrator.live import Live


def verify_file(path: Path, *, as_json: bool) -> tuple[bool, str]:
    """Proves a certificate's claims again.

    Args:
        path: the certificate.
        as_json: one JSON object instead of lines.

    Returns:
        Whether all of them hold, and what to print.

    Raises:
        ConfigError: the file is none, or is no certificate.
    """
    from costmodel.exact.certificate import read_certificate, verify

    verdict = verify(read_certificate(path))
    if as_json:
        return verdict.holds, json.dumps(dataclasses.asdict(verdict))
    lines = [f"  {finding}" for finding in verdict.findings]
    end = "the certificate holds" if verdict.holds else "the certificate does not hold"
    return verdict.holds, "\n".join([*lines, f"{end} ({verdict.seconds:.2f} s)"])


def front(workload: str, accelerator: str, *, plot: Path | None, as_json: bool) -> str:
    """Proves the energy-latency front of a workload.

    Args:
        workload: a preset's name, a YAML file or an inline workload.
        accelerator: a preset's name or a YAML file.
        plot: a PNG file to draw it into.
        as_json: one JSON object instead of a table.

    Returns:
        What to print.

    Raises:
        ConfigError: an unknown name, or a machine whose front cannot be proven.
    """
    from costmodel.accelerator import accelerator as load_accelerator
    from costmodel.exact.pareto import pareto_front
    from costmodel.mapspace import MapSpace
    from costmodel.records import mapping_record
    from costmodel.workload import workload as load_workload

    if plot is not None and not plot.parent.is_dir():
        raise ConfigError(f"{plot}: the folder {plot.parent} does not exist.")
    space = MapSpace(load_workload(workload), load_accelerator(accelerator))
    live = Live(sys.stderr)
    live.line(f"proving the front of {space.workload.name} on {space.accelerator.name}")
    points = pareto_front(
        space,
        after_point=lambda done, count: live.update(lambda: f"  {done} of {count} element counts"),
    )
    live.end()
    rows: list[dict[str, Any]] = [
        {
            "elements": point.elements,
            "latency_cycles": point.latency_cycles,
            "energy_pj": point.energy_pj,
            "edp": point.energy_pj * point.latency_cycles,
            "record": mapping_record(space, point.code),
        }
        for point in points
    ]
    if plot is not None:
        _draw(rows, f"{space.workload.name} on {space.accelerator.name}", plot)
    if as_json:
        return json.dumps(
            {
                "workload": space.workload.name,
                "accelerator": space.accelerator.name,
                "proven": True,
                "front": rows,
            }
        )
    lines = [
        f"proven energy-latency front of {space.workload.name} on {space.accelerator.name}",
        f"{'elements':>9}{'cycles':>16}{'energy, pJ':>16}{'EDP, pJ x cycles':>20}",
    ]
    lines += [
        f"{row['elements']:>9,}{row['latency_cycles']:>16,}"
        f"{row['energy_pj']:>16.6g}{row['edp']:>20.6g}"
        for row in rows
    ]
    return "\n".join(lines)


def _draw(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draws the front as steps: what lies below and left of them cannot be had."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cycles = [row["latency_cycles"] for row in rows]
    energy = [row["energy_pj"] for row in rows]
    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    axes.step(cycles, energy, where="post", color="#0067b1")
    axes.plot(cycles, energy, "o", color="#0067b1", markersize=4)
    best = min(range(len(rows)), key=lambda i: rows[i]["edp"])
    axes.plot(cycles[best], energy[best], "*", color="#d1495b", markersize=12, label="least EDP")
    axes.set_xscale("log")
    axes.set_xlabel("latency, cycles")
    axes.set_ylabel("energy, pJ")
    axes.set_title(f"Proven front of {title}", fontsize=10)
    axes.legend(frameon=False)
    axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
