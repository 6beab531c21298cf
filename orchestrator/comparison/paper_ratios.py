"""The ratios that Mind Mappings reports beside ours, where ours were found on the paper's terms.

Mind Mappings (ASPLOS 2021), section 5.4: how many times lower the EDP of its gradient search is
than that of simulated annealing, of a genetic algorithm and of reinforcement learning, each with
the settings of its Appendix A. Beside searches with other settings, on other problems or with
faster queries these figures would compare nothing, so that they are not given there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.comparison.latency_replay import Method, applies, end_after, replayed
from orchestrator.comparison.paper_values import END_POINTS
from orchestrator.comparison.results import Axis, Ratio, Results

RATIOS: Mapping[Axis, Mapping[str, float]] = {
    "evaluation": {"annealing": 1.40, "genetic": 1.76, "ddpg": 1.29},
    "seconds": {"annealing": 3.16, "genetic": 4.19, "ddpg": 2.90},
}
NAMES = {
    "annealing": "simulated annealing (SA)",
    "genetic": "genetic algorithm (GA)",
    "ddpg": "reinforcement learning (RL)",
}
GRADIENT = "gradient"
# How many times faster the paper's gradient search makes a step than its annealing (section 5.4.2).
FASTER_PER_STEP = 153.7

BASELINE_PRESETS = ("paper",)
GRADIENT_PRESETS = ("paper", "released")
# Plans a budget and is no setting: the paper's library sizes its cooling for the time that it gets.
PLANNED = frozenset({"horizon"})
# Its Table 1, and the problem that its Figures 5 and 6 draw in place of one of them.
PROBLEMS = frozenset({*END_POINTS, "inception-conv2"})
# The paper's machine, and the same with undivided buffers, which the surrogates are shipped for.
PAPERS_MACHINE = "mindmappings"
ACCELERATORS = (PAPERS_MACHINE, "mm256")

# Evaluations per second of Timeloop in one process: the most and the least that were measured on
# convolutions of Table 1, and between them their geometric mean.
TIMELOOP_RATES = {
    "Timeloop at its fastest": 134.0,
    "Timeloop in the middle": 28.0,
    "Timeloop at its slowest": 6.0,
}


@dataclass(frozen=True)
class Comparison:
    """A baseline beside every variant of the gradient searcher.

    Attributes:
        label: the baseline.
        ratios: its final EDP over the variant's, by the variant's label.
        paper: the paper's ratio; None unless the baseline has the paper's settings and the
            benchmark its terms.
    """

    label: str
    ratios: Mapping[str, Ratio]
    paper: float | None


def has_papers_settings(entry: Mapping[str, Any]) -> bool:
    """Whether a searcher of an experiment runs with what the paper, or its code, states of it."""
    presets = GRADIENT_PRESETS if entry["name"] == GRADIENT else BASELINE_PRESETS
    return (
        entry["name"] in (GRADIENT, *NAMES)
        and entry["preset"] in presets
        and set(entry["parameters"]) <= PLANNED
        and entry.get("iterations") is None
    )


def off_terms(results: Results) -> str:
    """Why the paper's ratios compare nothing with a benchmark's, empty where they do."""
    experiment = results.experiment
    entries = [entry for entry in experiment["searchers"] if has_papers_settings(entry)]
    names = {entry["name"] for entry in entries}
    if GRADIENT not in names or not names & set(NAMES):
        return (
            "no baseline and gradient search here both have the paper's settings (presets paper "
            "and released)"
        )
    if experiment["objective"] != "edp":
        return f"the paper minimises EDP, this benchmark {experiment['objective']}"
    if experiment["accelerator"] not in ACCELERATORS or not set(results.workloads) <= PROBLEMS:
        machines = " or ".join(ACCELERATORS)
        return f"the paper's are on the problems of its Table 1 and the machine {machines}"
    latency = experiment.get("query_latency") or 0.0
    if results.primary_axis == "seconds" and latency * max(TIMELOOP_RATES.values()) < 1 - 1e-9:
        return "the paper's equal time is that of queries of Timeloop, which these are faster than"
    return ""


def compare(results: Results) -> list[Comparison]:
    """Every baseline over each variant of the gradient searcher, with the paper's ratio if due.

    Returns:
        Nothing where no gradient search was run.
    """
    entries = {entry["label"]: entry for entry in results.experiment["searchers"]}
    variants = [label for label in results.searchers if entries[label]["name"] == GRADIENT]
    on_terms = not off_terms(results)
    found = []
    for label in results.searchers:
        entry = entries[label]
        if not variants or entry["name"] == GRADIENT:
            continue
        ratios = {variant: results.ratio(label, variant) for variant in variants}
        due = on_terms and has_papers_settings(entry)
        paper = RATIOS[results.primary_axis][entry["name"]] if due else None
        found.append(Comparison(label, ratios, paper))
    return found


@dataclass(frozen=True)
class Replay:
    """The comparison under equal time, had a true query taken longer.

    Attributes:
        query: whose query takes so long.
        latency: seconds per true query.
        seconds: of search, in which every gradient search spends its iterations.
        comparisons: as `compare` gives them.
    """

    query: str
    latency: float
    seconds: float
    comparisons: list[Comparison]


def replays(results: Results) -> list[Replay]:
    """The comparison under equal time at the cost of the paper's own query.

    A benchmark under equal iterations is replayed until its gradient searches with the paper's
    settings have spent theirs: at the rates of Timeloop, and where a query is as many times slower
    than a step of the gradient search as in the paper.

    Returns:
        By latency, the fastest query first; nothing where the benchmark is not on these terms.
    """
    if off_terms(results) or not applies(results):
        return []
    entries = {entry["label"]: entry for entry in results.experiment["searchers"]}
    variants = [
        label
        for label in results.searchers
        if entries[label]["name"] == GRADIENT and has_papers_settings(entries[label])
    ]
    # What asks no true query for its own use takes the same time at every latency.
    seconds = max(float(end_after(results, Method(label), [0.0])[0]) for label in variants)
    steps = [run for run in results.runs if run.searcher in variants]
    step = sum(run.seconds for run in steps) / sum(run.iterations for run in steps)
    latencies = {query: 1 / rate for query, rate in TIMELOOP_RATES.items()}
    latencies[f"{FASTER_PER_STEP:g} gradient steps"] = FASTER_PER_STEP * step
    return [
        Replay(query, latency, seconds, compare(replayed(results, latency, seconds)))
        for query, latency in sorted(latencies.items(), key=lambda item: item[1])
    ]


def gradient_settings(results: Results) -> dict[str, bool]:
    """By label of a gradient search: whether its settings are the paper's."""
    return {
        entry["label"]: has_papers_settings(entry)
        for entry in results.experiment["searchers"]
        if entry["name"] == GRADIENT and entry["label"] in results.searchers
    }
