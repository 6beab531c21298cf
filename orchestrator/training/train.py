"""`mapspace train`: a surrogate on Ray Train, resumable.

The loop itself is `surrogate.training.fit`; this file hosts it on one or many workers. The same
command continues an interrupted run from its last checkpoint and leaves a finished one alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError, MapspaceError
from mapspace.storage import Place, file_sizes, place, remove_folder, write_atomically
from mapspace.strict_yaml import FileName, Size
from orchestrator.report.text_table import table_lines
from orchestrator.runs.locations import ray_storage
from orchestrator.runs.lock import Claim
from orchestrator.runs.mlflow_record import Record
from orchestrator.runs.progress import progress_bar
from orchestrator.runs.progress_file import Chart
from orchestrator.runs.progress_writer import curve as loss_curve
from orchestrator.runs.ray_runtime import code_version, ray_runtime
from orchestrator.runs.run_folder import Experiment
from orchestrator.training.surrogate_report import (
    REPORT_FILE,
    reached_table,
    write_surrogate_report,
)
from surrogate.options import CURVE_FILE, FitOptions, Positive, read_curve, write_curve
from surrogate.shards import Dataset, check_shard

if TYPE_CHECKING:
    import torch

    from surrogate.predictor import Card


STEM = "surrogate"
# What the first worker tells this process.
PROGRESS_FILE = "views.json"
RAY_FOLDER = "ray"
# Deaths of workers that one run survives, each at the cost of the work since the last checkpoint.
MOST_FAILURES = 3
# Starts of workers that one run survives; Ray would start them for ever.
MOST_STARTS = 20
# Between looks at the progress; a look at object storage is a request.
POLL_SECONDS, REMOTE_POLL_SECONDS = 0.5, 2.0


# Takes what the first worker has said so far, the last at the end.
Look = Callable[[Sequence[dict[str, Any]]], None]


class Training(FitOptions):
    """All of a training but its name: data, recipe, length, and what it runs on."""

    data: str
    """Folder of the data set, as `mapspace generate` made it; a path or a URI."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """A GPU per worker, or none; auto: where PyTorch can use GPUs and Ray has enough of them."""
    workers: Size = 1
    """Processes that train together, each on its share of every batch."""
    threads: Positive = 1
    """Threads of each worker. A second one saves a third of the time on idle cores, and takes ten
    times as long where it has to wait for a core that something else uses."""

    def options(self) -> FitOptions:
        """The part that decides the weights, for one worker."""
        return FitOptions(**{name: getattr(self, name) for name in FitOptions.model_fields})

    def named(self, name: str) -> TrainConfig:
        """A run of it."""
        return TrainConfig.model_validate({**self.model_dump(), "kind": "train", "name": name})


class TrainConfig(Training):
    """A training run, named."""

    kind: Literal["train"]
    name: FileName
    """Names the folder, runs/NAME."""
    description: str = ""
    """What the surrogate is for."""


class TrainExperiment(Experiment[TrainConfig, "Card"]):
    """A training run in its folder."""

    command = "train"
    words = "a training run"
    config = TrainConfig
    file = "train.json"
    result_file = f"{STEM}.json"
    page = REPORT_FILE
    needed = (f"{STEM}.json", CURVE_FILE)
    kept = (CURVE_FILE, f"{STEM}.safetensors", f"{STEM}.json")
    quick: ClassVar = {
        "kind": "train",
        "name": "quick",
        "data": "{data}",
        "views": 2048,
        "held_out_problems": 5,
        "checkpoint_views": 1024,
    }
    other: ClassVar = {"seed": 1}

    @classmethod
    def prepare(cls, config: TrainConfig, where: str) -> TrainConfig:
        """Looks whether data and recipe fit together."""
        check(config)
        return config

    def identity(self) -> dict[str, Any]:
        """What decides the weights."""
        shards = [shard.sha256 for shard in Dataset(self.plan.data).manifest.shards]
        return {
            "options": self.plan.options().model_dump(),
            "workers": self.plan.workers,
            "data": hashlib.sha256(json.dumps(shards).encode()).hexdigest()[:16],
        }

    def other_run(self, there: Any) -> str:
        """A run of another recipe, length, number of workers or data set."""
        # What a run of an older version did not know is as it is by default.
        there = {**there, "options": {**FitOptions().model_dump(), **there.get("options", {})}}
        differing = [key for key, mine in self.identity().items() if there.get(key) != mine]
        if not differing:
            return ""
        return f"holds another training run (its {', '.join(differing)} differ)"

    def work(self, folder: Place, claim: Claim) -> Card:
        """Runs Ray Train, from its last checkpoint where there is one."""
        with ray_runtime(needed=self.plan.workers * self.plan.threads):
            self.progress.stage("training", unit="views")
            _train(self.plan, folder, claim, self._seen, drawn=self.bars)
        remove_folder(folder / RAY_FOLDER)
        (folder / PROGRESS_FILE).unlink(missing_ok=True)
        return self.load(folder)

    def _seen(self, curve: Sequence[dict[str, Any]]) -> None:
        """Tells how far the workers are, by all that they have said."""
        last = curve[-1]
        self.progress.reach(last["views"], last["total"])
        points = loss_curve("loss", ((one["views"], one["loss"]) for one in curve))
        chart = Chart(title="Loss", across="views", up="loss", logarithmic=True, curves=(points,))
        self.progress.show(lambda: ([chart], []), now=True)

    def load(self, folder: Place) -> Card:
        """Reads what the surrogate is said to be."""
        from surrogate.predictor import read_card

        return read_card(folder / self.result_file)

    def text(self, result: Card, folder: Path) -> str:
        """How long it was trained, and how good it is."""
        return "\n".join([f"Surrogate {self.name}", *table_lines(reached_table(result))])

    def draw(self, result: Card, folder: Path) -> None:
        """Writes its page, with the curves."""
        write_surrogate_report(result, read_curve(folder), folder, self.name, self.plan.description)

    def record(self, result: Card, folder: Path) -> Record:
        """Points of the curve are steps of a metric, at their views."""
        metrics = [
            (name, value, point.views)
            for point in read_curve(folder)
            for name, value in point.model_dump(exclude={"views"}).items()
        ]
        return Record(result.sha256[:16], metrics, tuple(folder / name for name in self.needed))


def run_train(config: TrainConfig, folder: Place | str) -> Place:
    """Trains a surrogate, or completes a run, as `Experiment.run` does; the folder."""
    TrainExperiment(TrainExperiment.prepare(config, config.name)).run(folder)
    return place(folder)


def check(config: Training) -> Dataset:
    """Refuses before Ray starts what would fail on its workers.

    Raises:
        ConfigError: If the configuration does not fit the data set.
        DataError: If a shard is damaged; the message names it.
    """
    import torch

    from surrogate.recipes import recipe_of
    from surrogate.stream import hold_out, shards_for

    if config.device == "cuda" and torch.version.cuda is None:
        raise ConfigError(
            f"device: expected auto or cpu, got cuda: PyTorch {torch.__version__} is built "
            "without CUDA."
        )
    if not place(config.data).is_dir():
        raise ConfigError(
            f"data: there is no data set folder {config.data}; `mapspace generate` makes it."
        )
    dataset = Dataset(config.data)
    shards = shards_for(dataset, config.rows)
    batch_size = recipe_of(config.options()).batch_size
    if config.workers > shards or batch_size % config.workers:
        raise ConfigError(
            f"workers: expected a divisor of the batch size {batch_size} of at most {shards} "
            f"(the shards), got {config.workers}."
        )
    _check_shards(dataset)
    held_out = hold_out(dataset, config.held_out_problems)
    rows = sum(shard.rows for shard in dataset.manifest.shards[:shards])
    if rows - len(held_out.log_edp) < batch_size * config.workers:
        raise ConfigError(
            f"rows: {rows} rows less {len(held_out.log_edp)} of held-out problems are too few for "
            f"batches of {batch_size}."
        )
    return dataset


def _check_shards(dataset: Dataset) -> None:
    """Compares local shards with their checksums; remote ones are, where they are first read.

    Raises:
        DataError: If one is damaged or missing.
    """
    shards = dataset.manifest.shards
    if not isinstance(dataset.folder, Path):
        there = file_sizes(dataset.folder)
        shards = tuple(shard for shard in shards if shard.file not in there)
    for shard in shards:
        check_shard(dataset.folder, shard)


def _train(config: TrainConfig, folder: Place, claim: Claim, look: Look, *, drawn: bool) -> None:
    """Runs Ray Train to its end and shows progress meanwhile."""
    from ray.train import (
        CheckpointConfig,
        FailureConfig,
        RunConfig,
        ScalingConfig,
        TrainingFailedError,
    )
    from ray.train.torch import TorchTrainer

    from orchestrator.training.torch_backend import AddressedTorch

    gpu = _uses_gpus(config)
    resources = {"CPU": config.threads, **({"GPU": 1} if gpu else {})}
    trainer = TorchTrainer(
        _worker,
        train_loop_config={
            "data": str(place(config.data).resolve()),
            "folder": str(folder),
            "options": config.options().model_dump_json(),
            "threads": config.threads,
            "gpu": gpu,
            "provenance": code_version(),
        },
        scaling_config=ScalingConfig(
            num_workers=config.workers, use_gpu=gpu, resources_per_worker=resources
        ),
        torch_config=AddressedTorch(backend="nccl" if gpu else "gloo"),
        # The same name and storage: a run that was interrupted continues from its checkpoint.
        run_config=RunConfig(
            name=RAY_FOLDER,
            **ray_storage(folder),
            failure_config=FailureConfig(
                max_failures=MOST_FAILURES, controller_failure_limit=MOST_STARTS
            ),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    )
    failures: list[BaseException] = []

    def host() -> None:
        try:
            trainer.fit()
        except BaseException as error:
            failures.append(error)

    # In the main thread Ray would take Ctrl-C for itself.
    thread = threading.Thread(target=host, daemon=True)
    thread.start()
    with progress_bar("views", drawn=drawn) as progress:
        bar = progress.add_task(config.name, total=1, note="")
        curve: list[dict[str, Any]] = []
        while thread.is_alive():
            thread.join(POLL_SECONDS if isinstance(folder, Path) else REMOTE_POLL_SECONDS)
            claim.check()
            _look_where_we_are()
            seen = _progress(folder)
            if seen is not None:
                note = f"loss {seen['loss']:.2g}"
                progress.update(bar, total=seen["total"], completed=seen["views"], note=note)
                if not curve or curve[-1] != seen:
                    curve.append(seen)
                    look(curve)
    if failures:
        failure = failures[0]
        if not isinstance(failure, TrainingFailedError):
            raise failure
        reasons = [line for line in str(failure).splitlines() if line.strip()]
        reason = reasons[-1].strip().removeprefix("mapspace.errors.")
        raise MapspaceError(f"Training failed: {reason}") from failure


def _look_where_we_are() -> None:
    """Ends a run whose workers cannot start: each would fail in the folder that is not there.

    Raises:
        MapspaceError: the working directory has been removed.
    """
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise MapspaceError(
            "Training failed: the working directory has been removed, and workers start in it. The "
            "same command, in a folder that is there, continues."
        ) from error


def _uses_gpus(config: Training) -> bool:
    """Whether the workers get a GPU each.

    Raises:
        ConfigError: If they shall and Ray has too few.
    """
    import ray
    import torch

    if config.device == "cpu" or torch.version.cuda is None:
        return False
    there = int(ray.cluster_resources().get("GPU", 0))
    if config.device == "cuda" and there < config.workers:
        raise ConfigError(
            f"device: expected auto or cpu, got cuda: Ray has {there} GPUs for {config.workers} "
            "workers."
        )
    return there >= config.workers


def _progress(folder: Place) -> dict[str, Any] | None:
    try:
        seen: dict[str, Any] = read_json(folder / PROGRESS_FILE)
    except MapspaceError:
        # Nothing yet, or a store that is away for a moment: the workers will tell if it stays away.
        return None
    return seen


def _worker(arguments: dict[str, Any]) -> None:
    """One worker of the run; the first one keeps checkpoints and writes the result."""
    import ray.train
    import ray.train.torch
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from surrogate import predictor, training

    torch.set_num_threads(arguments["threads"])
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    folder = place(arguments["folder"])
    options = training.FitOptions.model_validate_json(arguments["options"])
    dataset = Dataset(arguments["data"])
    # Without a GPU of its own a worker is told of the machine's first one.
    device = ray.train.torch.get_device() if arguments["gpu"] else torch.device("cpu")

    def report(progress: training.Progress) -> None:
        figures = {"views": progress.views, "loss": progress.loss, "seconds": progress.seconds}
        with tempfile.TemporaryDirectory() as temporary:
            checkpoint = None
            if rank == 0:
                progress.save(Path(temporary))
                checkpoint = ray.train.Checkpoint.from_directory(temporary)
            # Every worker reports: Ray Train waits for all of them.
            ray.train.report(figures, checkpoint=checkpoint)
        if rank == 0:
            total = progress.views // progress.step * progress.steps
            seen = json.dumps({**figures, "total": total}).encode()
            write_atomically(folder / PROGRESS_FILE, seen)

    def gather(place: training.Place) -> list[training.Place]:
        places: list[Any] = [None] * workers
        torch.distributed.all_gather_object(places, place)
        return places

    def run(resume: Path | None) -> training.Fitted:
        if workers == 1:
            worker = training.Worker(device=str(device))
        else:
            worker = training.Worker(rank, workers, DistributedDataParallel, str(device), gather)
        return training.fit(dataset, options, report=report, resume=resume, worker=worker)

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        fitted = run(None)
    else:
        with checkpoint.as_directory() as resume:
            fitted = run(Path(resume))
    if rank != 0:
        return
    manifest = dataset.manifest
    write_curve(folder, fitted.curve)
    predictor.write(
        folder / STEM,
        fitted.network,
        structure=manifest.structure,
        costs=manifest.costs,
        ranges=manifest.config.problems.bounds(),
        scale=manifest.statistics.inputs.std,
        reached=fitted.figures,
        training={
            **options.model_dump(),
            "views": fitted.views,
            "rows": fitted.rows,
            "seconds": round(fitted.seconds, 1),
            "workers": workers,
            "threads": arguments["threads"],
            "device": _device_name(device),
        },
        provenance={
            **arguments["provenance"],
            "model": manifest.provenance["model"],
            "model_version": manifest.provenance["model_version"],
            "data_config": manifest.config_hash,
            "data_seed": str(manifest.config.seed),
        },
    )


def _device_name(device: torch.device) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
