"""How large a map space is, what random mappings cost, how rugged the costs are.

Source: Hegde et al., Mind Mappings (ASPLOS 2021), section 5.1.3 (sizes; mean and standard deviation
of the energy of a million samples) and Figure 3 (the cost surface).
"""

from __future__ import annotations

import functools
import math
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import numpy as np

from costmodel.loop_nest.model import LoopNestModel
from costmodel.loop_nest.records import record_code
from costmodel.machines.bounds import algorithmic_minimum
from costmodel.map_space.map_space import MapSpace
from mapspace.errors import ArgumentError, DataError, MapspaceError, together
from mapspace.storage import Place
from orchestrator.map_space.sample import Sample, check_family, sample_family, sample_space
from orchestrator.records.found_mapping import MappingCosts
from orchestrator.runs.interrupts import interruptible
from orchestrator.runs.live import Live
from orchestrator.runs.locations import local_file
from orchestrator.schemas.spaces import (
    FamilyAnswer,
    SampleAnswer,
    SizesAnswer,
    SpaceAnswer,
    SpacesAnswer,
)
from orchestrator.store.proofs import read_or_prove

if TYPE_CHECKING:
    from costmodel.exact.certificate import Certificate
    from costmodel.exact.face import AnyProof
    from costmodel.machines.accelerators import AcceleratorSource
    from costmodel.problems.workloads import WorkloadSource
    from orchestrator.store.folder import Store

# A proof that takes longer is given up: the space is then described without its optimum.
PROOF_SECONDS = 20.0


@dataclass(frozen=True)
class SpaceDescription:
    """What is known of map spaces.

    Attributes:
        summary: as JSON types; what `mapspace space --json` prints.
        interrupted: whether Ctrl-C cut the sampling or the proof short.
        undrawn: why the plot could not be drawn, if it could not.
    """

    summary: SpacesAnswer | FamilyAnswer
    interrupted: bool
    undrawn: MapspaceError | OSError | None = None


def sizes(space: MapSpace) -> SizesAnswer:
    """Values of every attribute and mappings in all, infeasible ones included."""
    return {
        "attributes": dict(zip(space.attribute_names, space.cardinality.tolist(), strict=True)),
        "mappings": str(space.size()),
        "log10": math.log10(space.size()),
    }


def describe_spaces(
    workloads: Sequence[WorkloadSource],
    accelerator: AcceleratorSource,
    *,
    samples: int,
    seed: int,
    plot: Place | None = None,
    surface: tuple[str, str] | None = None,
    stream: TextIO | None = None,
    store: Store | None = None,
) -> SpaceDescription:
    """Describes the map spaces of workloads, with live progress; Ctrl-C ends the sampling.

    Args:
        workloads: as `costmodel.workload` takes them.
        accelerator: likewise the machine.
        samples: feasible mappings drawn from each space.
        seed: decides them.
        plot: a PNG file for the distribution and the cost surface of the first workload.
        surface: the attributes, or dimensions for their tilings, that the plot's slice varies;
            None: the tilings of one dimension of each of the first two inputs.
        stream: takes the progress; standard error if None.
        store: where proofs of optima are read and kept; None: nowhere.

    Raises:
        ConfigError: an unknown name, a value that is not allowed, or no feasible mapping.
    """
    from costmodel.machines.accelerators import accelerator as load_accelerator
    from costmodel.problems.workloads import workload as load_workload
    from orchestrator.map_space.figure import draw_surface
    from orchestrator.map_space.surface import check_attributes

    device, *loaded = together(
        lambda: load_accelerator(accelerator),
        *(functools.partial(load_workload, name) for name in workloads),
        lambda: _check_samples(samples),
    )
    spaces = [MapSpace(one, device) for one in loaded[:-1]]
    if surface is not None:
        check_attributes(spaces[0], surface)
    live = Live(stream or sys.stderr)
    entries: list[SpaceAnswer] = []
    drawn: list[Sample] = []
    read = []
    with interruptible() as stop:
        for space in spaces:
            if drawn and stop.is_set():
                break
            live.line(f"sampling {space.workload.name} on {device.name}")
            sample = sample_space(space, samples, seed, live, stop)
            live.end()
            drawn.append(sample)
            certificate, note, stored = _prove(space, live, stop, store)
            read.append(stored)
            entries.append(_entry(space, sample, certificate, note))
    summary: SpacesAnswer = {
        "accelerator": device.name,
        "model": LoopNestModel.name,
        "model_version": LoopNestModel.version,
        "seed": seed,
        "interrupted": stop.is_set(),
        "from_store": all(read),
        "spaces": entries,
    }
    if len(drawn) > 1:
        summary["pooled"] = _pooled(drawn)
    if plot is not None:
        live.line("drawing the cost surface")
        proven = certificate is not None and certificate.proven
        best = drawn[0].best
        if certificate is not None:
            best = record_code(spaces[0], certificate.record)
        assert best is not None  # a sample of one space has a best mapping
        try:
            with local_file(plot) as file:
                summary["surface"] = draw_surface(
                    spaces[0], best, drawn[0].edp, surface, file, proven=proven
                )
        except (MapspaceError, OSError) as error:
            return SpaceDescription(summary, stop.is_set(), error)
    return SpaceDescription(summary, stop.is_set())


def describe_family(
    family: str, accelerator: str, *, samples: int, seed: int, stream: TextIO | None = None
) -> SpaceDescription:
    """Describes what random mappings of random problems cost, with live progress.

    Args:
        family: `cnn` or `mttkrp`; problems are drawn as for the paper's training data.
        accelerator: a preset's name or a YAML file.
        samples: feasible mappings in all.
        seed: decides them.
        stream: takes the progress; standard error if None.

    Raises:
        ConfigError: an unknown name or a value that is not allowed.
    """
    from costmodel.machines.accelerators import accelerator as load_accelerator

    device, *_ = together(
        lambda: load_accelerator(accelerator),
        lambda: check_family(family),
        lambda: _check_samples(samples),
    )
    live = Live(stream or sys.stderr)
    live.line(f"sampling {family} problems on {device.name}")
    with interruptible() as stop:
        sample, problems = sample_family(family, device, samples, seed, live, stop)
    live.end()
    summary: FamilyAnswer = {
        "accelerator": device.name,
        "model": LoopNestModel.name,
        "model_version": LoopNestModel.version,
        "seed": seed,
        "interrupted": stop.is_set(),
        "from_store": False,
        "family": family,
        "problems": problems,
        **sample.summary(),
    }
    return SpaceDescription(summary, stop.is_set())


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise ArgumentError("samples", f": expected at least 1, got {samples}.")


def _prove(
    space: MapSpace, live: Live, stop: threading.Event, store: Store | None
) -> tuple[Certificate | None, str, bool]:
    """The proof of a space's best mapping, as far as it came, or None and why there is none.

    The third says whether the store had it.
    """
    from costmodel.exact_any.choice import FUNCTIONS, load_prover, prove, why_not_proven

    reason = why_not_proven(space)
    if reason is not None:
        return None, reason, False
    with live.preparing("loading the exact search", functions=FUNCTIONS):
        load_prover(space)

    # The Ctrl-C that ended the sampling does not end the proof, which takes a moment.
    sampling_ended = stop.is_set()

    def after_step(prover: AnyProof) -> None:
        live.update(lambda: f"  {space.workload.name}: proving the optimum")
        if stop.is_set() and not sampling_ended and not prover.finished:
            raise KeyboardInterrupt

    try:
        found, stored = read_or_prove(
            space,
            "edp",
            PROOF_SECONDS,
            store,
            lambda: prove(space, seconds=PROOF_SECONDS, after_step=after_step),
        )
    except DataError as error:
        return None, str(error).rstrip("."), False
    except KeyboardInterrupt:
        return None, "interrupted", False
    finally:
        live.end()
    if stored:
        live.line(f"  {space.workload.name}: the optimum is answered from the store")
    return found, "" if found.proven else f"not proven in {PROOF_SECONDS:g} s", stored


def _entry(
    space: MapSpace, sample: Sample, certificate: Certificate | None, note: str
) -> SpaceAnswer:
    minimum = algorithmic_minimum(space.workload, space.accelerator)
    feasible = space.feasible_count()
    entry: SpaceAnswer = {
        "workload": space.workload.name,
        "accelerator": space.accelerator.name,
        **sizes(space),
        "feasible": None if feasible is None else str(feasible),
        **sample.summary(),
        "optimum": None,
        "optimum_note": note,
    }
    if certificate is not None and certificate.proven:
        best = certificate.value / minimum.edp
        edp = entry["edp"]
        costs = MappingCosts(
            certificate.energy_pj, certificate.latency_cycles, space.accelerator.clock_ghz
        )
        entry["optimum"] = {
            "edp": certificate.value,
            "latency_s": costs.latency_s,
            "edp_js": costs.edp_js,
            "power_w": costs.power_w,
            "normalised_edp": best,
            "best_sample_above": edp["minimum"] / best - 1,
            "median_above": edp["median"] / best - 1,
            "mean_above": edp["mean"] / best - 1,
            "within_10_percent": float((sample.edp <= 1.1 * best).mean()),
            "within_twice": float((sample.edp <= 2 * best).mean()),
        }
    return entry


def _pooled(samples: Sequence[Sample]) -> SampleAnswer:
    """Statistics over all spaces together, the same number of mappings of each."""
    count = min(len(sample.energy) for sample in samples)
    every = Sample(
        np.concatenate([sample.energy[:count] for sample in samples]),
        np.concatenate([sample.cycles[:count] for sample in samples]),
    )
    return every.summary()
