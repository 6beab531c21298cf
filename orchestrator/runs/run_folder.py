"""What every kind of run does alike: its folder, lock, identity, progress, page and MLflow record.

A kind is a class with what is its own (`Experiment`), named in `orchestrator.runs.kinds`.
"""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from mapspace.bounded_reading import read_json
from mapspace.errors import ConfigError
from mapspace.extras import is_installed
from mapspace.storage import Place, place, write_atomically
from orchestrator.report.document import Table
from orchestrator.report.text_table import labelled
from orchestrator.runs.folder_kind import FolderKind
from orchestrator.runs.kinds import KINDS, require_own, why_no_report
from orchestrator.runs.limits import LimitReachedError, Limits
from orchestrator.runs.locations import local_view
from orchestrator.runs.lock import Claim, claimed
from orchestrator.runs.mlflow_client import OWN_STORE, TRACKING_FILE, default_uri, open_mlflow
from orchestrator.runs.mlflow_live import told_to_mlflow
from orchestrator.runs.mlflow_record import Record, log_run
from orchestrator.runs.progress import progress_bar
from orchestrator.runs.progress_writer import ProgressWriter
from orchestrator.runs.ray_runtime import code_version, fan_out
from orchestrator.runs.tables_file import TABLES_FILE, write_tables
from orchestrator.schemas.runs import RunAnswer
from orchestrator.store.folder import Store
from orchestrator.store.made_files import keep_files, take_files

Plan = TypeVar("Plan")
Result = TypeVar("Result")
Say = Callable[[str], None]
Execute = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]
"""Applies a function to items, in any order: Ray tasks, or `map` here."""


def say(line: str) -> None:
    """Prints a line of progress on standard error."""
    print(line, file=sys.stderr, flush=True)


def unsaid(line: str) -> None:
    """Prints nothing."""


@dataclass
class Experiment(FolderKind, ABC, Generic[Plan, Result]):
    """A run of one kind: what its folder holds and how that comes about.

    Attributes:
        plan: what to run, every name in it looked up.
        say: takes lines for a person.
        bars: whether bars of progress are drawn on standard error.
        execute: what the tasks of `spread` run on; None: Ray.
        store: where what was computed before is read, and new things are kept; None: nowhere.
        limits: what one call may take.
        live: the MLflow store that is told how the run stands, `OWN_STORE` for the folder's own;
            None: none is.
        progress: takes how the run stands, for those who look on.
        taken: how much the last call had from the store, in units of its own.
        made: how much it made.
    """

    unit: ClassVar[str] = "tasks"
    """What its tasks are, in the plural."""
    result_file: ClassVar[str] = ""
    """What is there once a run is finished; empty: every call looks for what is missing."""
    needed: ClassVar[tuple[str, ...]] = ()
    """Files that page and MLflow record are made of, besides what `run` returns."""
    kept: ClassVar[tuple[str, ...]] = ()
    """Files of a finished run that the store keeps, the `result_file` last; empty: none."""
    tracked: ClassVar[bool] = False
    """Whether it is logged to a store of its own where no other one is named."""
    quick: ClassVar[Mapping[str, Any]]
    """An experiment of seconds, for tests; `{data}` stands for the folder of a small data set."""
    other: ClassVar[Mapping[str, Any]] = {"name": "another"}
    """Changes to `quick` that make it an experiment which its folder does not take."""

    plan: Plan
    say: Say = unsaid
    bars: bool = False
    execute: Execute | None = None
    store: Store | None = None
    limits: Limits = field(default_factory=Limits)
    live: str | None = None
    progress: ProgressWriter = field(default_factory=ProgressWriter)
    taken: int = field(default=0, init=False)
    made: int = field(default=0, init=False)

    @classmethod
    def prepare(cls, config: Any, where: str) -> Plan:
        """Looks up every name of an experiment; nothing is written.

        Args:
            config: what was read.
            where: what messages start with, such as the file's name.

        Raises:
            ConfigError: an unknown name, or what does not fit together.
        """
        plan: Plan = config
        return plan

    @classmethod
    def libraries(cls, config: Any) -> tuple[str, ...]:
        """Libraries that an experiment needs beside those of its kind."""
        return ()

    @property
    def settings(self) -> Any:
        """The experiment as its file has it."""
        return self.plan

    @property
    def name(self) -> str:
        """What the experiment is called."""
        return str(self.settings.name)

    def identity(self) -> dict[str, Any]:
        """What the folder notes at the beginning, as JSON types."""
        return {"experiment": self.settings.model_dump(mode="json"), "provenance": code_version()}

    def decides(self) -> dict[str, Any]:
        """What decides the files of `kept`, as JSON types: no names, and no commit."""
        content = json.loads(json.dumps(self.identity()))
        content.pop("provenance", None)
        for name in ("name", "description"):
            content.get("experiment", {}).pop(name, None)
        return {"kind": self.settings.kind, "mapspace": version("mapspace"), **content}

    def other_run(self, there: Any) -> str:
        """Says why what a folder notes is another run, such as "holds another ..."; empty: not.

        By default one of another name: one that was changed keeps what is finished.
        """
        name = there.get("experiment", there)["name"]
        if name == self.name:
            return ""
        return f"expected the {self.words.split()[-1]} {self.name!r}, found {name!r}"

    def check(self, folder: Place) -> None:
        """Refuses what this run lacks here; nothing has been written or looked up.

        Raises:
            ConfigError: what it is.
        """

    @abstractmethod
    def work(self, folder: Place, claim: Claim) -> Result:
        """Runs or continues what is not finished, in a folder that is this run's own."""

    def load(self, folder: Place) -> Result:
        """Reads a finished run, of kinds with a `result_file`."""
        raise NotImplementedError

    def text(self, result: Result, folder: Path) -> str:
        """The summary for a terminal; the folder is a local one, or a copy of what is needed."""
        return ""

    def draw(self, result: Result, folder: Path) -> None:
        """Writes the page, and what belongs to it, into a local folder."""

    def tables(self, result: Result, folder: Path) -> Sequence[Table]:
        """Those that its folder has as data, for pages of other places; by default none."""
        return ()

    def record(self, result: Result, folder: Path) -> Record:
        """What MLflow gets of a finished run; a kind has this or its own `log`."""
        raise NotImplementedError

    def log(self, result: Result, folder: Path, tracking_uri: str) -> Mapping[str, str]:
        """Logs a finished run, unless the same results are logged there already.

        Returns:
            The addresses of MLflow's pages to open first, by a word for what they show.

        Raises:
            MapspaceError: the store cannot be reached or written.
        """
        record = self.record(result, folder)
        return {"run": log_run(self.settings, record, folder, tracking_uri)}

    def live_tags(self) -> Mapping[str, str] | None:
        """What its MLflow run has from its beginning; None: it has none before the end."""
        return None

    @classmethod
    def report(cls, folder: Place, *, tracking_uri: str | None = None) -> Path:
        """Draws the page of a finished run from its folder; the local page.

        By default it is the one that a run with tables has drawn when it ended.

        Raises:
            ConfigError: the kind has no such report; the message says what to do instead.
        """
        if isinstance(folder, Path) and (folder / TABLES_FILE).exists():
            return folder / cls.page
        raise ConfigError(why_no_report(folder))

    @classmethod
    def is_needed(cls, name: str) -> bool:
        """Whether page or MLflow record need a file, by its path from the run folder."""
        return name in (*cls.needed, TRACKING_FILE)

    def run(self, folder: Place | str) -> Result:
        """Runs the experiment, continues it, or reads it where it is finished.

        Args:
            folder: the run folder, a path or a URI, made if it is not there. The nodes of a Ray
                cluster must share it, or have the URI's credentials.

        Returns:
            The results, which then also lie in the folder.

        Raises:
            ConfigError: the folder holds something else, or another run writes to it.
            MapspaceError: the run failed; the same command continues it.
        """
        folder = place(folder)
        require_own(folder, type(self))
        self.check(folder)
        if not self._is_finished(folder):
            with claimed(folder) as claim:
                folder = folder.resolve()
                self.begin(folder)
                if not self._is_finished(folder) and not self._taken(folder):
                    result = self._watched_work(folder, claim)
                    self._keep(folder)
                    return result
        self.begin(folder)
        self.say(f"{self.name}: already finished in {folder}")
        return self.load(folder)

    def _taken(self, folder: Place) -> bool:
        """Whether the store had all that a finished run is made of."""
        if self.store is None or not self.kept:
            return False
        made = take_files(self.store, self.decides(), folder)
        if made is None or not self._is_finished(folder):
            return False
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made.stored))
        self.say(f"{self.name}: taken from {self.store.place}, made on {when}")
        self.taken += 1
        return True

    def _keep(self, folder: Place) -> None:
        """Gives the store what a finished run is made of."""
        self.made += bool(self.kept)
        if self.store is not None and self.kept:
            files = [folder / name for name in self.kept]
            keep_files(self.store, self.decides(), f"{self.words}: {self.name}", files)

    def _watched_work(self, folder: Place, claim: Claim) -> Result:
        """The work, which meanwhile tells in the folder how it stands."""
        self.progress, said = ProgressWriter(), self.say

        def tell(line: str) -> None:
            self.progress.line(line)
            said(line)

        self.say = tell
        try:
            written = self.progress.written(folder, claim, self.settings.kind, self.name)
            # MLflow is told last, what the last file says.
            with self._told_live(folder), written:
                return self.work(folder, claim)
        finally:
            self.say = said

    def _told_live(self, folder: Place) -> AbstractContextManager[None]:
        """Tells MLflow how the work stands, where that can be: a folder elsewhere has no store."""
        tags = self.live_tags()
        if self.live is None or tags is None or not isinstance(folder, Path):
            return nullcontext()
        uri = default_uri(folder) if self.live == OWN_STORE else self.live
        return told_to_mlflow(folder, uri, self.name, tags, self.say)

    def begin(self, folder: Place) -> None:
        """Notes in a folder what is run there.

        Raises:
            ConfigError: the folder holds another run, or what it notes is damaged.
        """
        path, identity = folder / self.file, self.identity()
        there = None
        if path.exists():
            try:
                there = read_json(path)
                why = self.other_run(there)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise ConfigError(f"{path}: is damaged; remove it to continue the run.") from error
            self.refuse(folder, why)
        if there is None or (not self.result_file and there != identity):
            write_atomically(path, f"{json.dumps(identity, indent=1)}\n".encode())

    @staticmethod
    def refuse(folder: Place, why: str) -> None:
        """Raises what `other_run` says.

        Raises:
            ConfigError: it says something.
        """
        if why:
            raise ConfigError(f"{folder}: {why}; choose another --output or name.")

    def spread(
        self,
        claim: Claim,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        total: int,
        done: int,
        weight: Callable[[Any], int] = lambda answer: 1,
    ) -> Iterator[Any]:
        """Applies a function to items, with a bar; answers come as they are ready.

        Args:
            claim: on the run folder.
            function: what to run; importable on Ray's workers.
            items: its arguments.
            total: how many units there are in all.
            done: how many of them were there before.
            weight: how many of them an answer is.

        Raises:
            MapspaceError: workers keep dying on an item, the folder was taken over, or a limit is
                reached.
        """
        workers = self.progress.workers
        execute = self.execute or partial(
            fan_out, what=self.unit, watch=workers, cores=self.limits.cores
        )
        if not items:
            return
        self.progress.stage(self.words, unit=self.unit, total=total, done=done)
        started, finished = time.monotonic(), 0
        with progress_bar(self.unit, drawn=self.bars) as progress:
            bar = progress.add_task(self.name, total=total, completed=done, note="")
            for answer in execute(function, items):
                claim.check()
                finished += weight(answer)
                self.progress.reach(done + finished)
                rate = f"{finished / (time.monotonic() - started):,.1f}/s"
                progress.update(bar, completed=done + finished, note=rate)
                yield answer
                reached = self.limits.reached(self.progress.processors)
                if reached and done + finished < total:
                    raise LimitReachedError(
                        f"{self.name}: stopped after {reached} with {done + finished:,} of "
                        f"{total:,} {self.unit}; the same command goes on."
                    )

    def close(
        self, result: Result, folder: Place, tracking_uri: str | None, echo: Say
    ) -> RunAnswer:
        """Prints the summary of a finished run, draws its page and logs it to MLflow.

        Args:
            result: what `run` returned.
            folder: the run folder.
            tracking_uri: MLflow; None: the folder's own store, for kinds that keep one.
            echo: takes the lines.

        Returns:
            Where everything is; 0 for how long it took.

        Raises:
            MapspaceError: MLflow cannot be reached.
        """
        page = store = None
        pages: Mapping[str, str] = {}
        with local_view(folder, self.is_needed) as copy:
            if text := self.text(result, copy):
                echo(f"{text}\n")
            echo(f"results  {folder}")
            # All of this before a tracking server is waited for.
            self.draw(result, copy)
            if tables := self.tables(result, copy):
                settings = self.settings.model_dump(mode="json")
                write_tables(copy, f"mapspace {self.command} {self.name}", settings, tables)
            if self.page:
                page = str(copy / self.page)
                echo(f"page     {page}")
            own = default_uri(copy) if self.tracked and is_installed("mlflow") else None
            uri = tracking_uri or own
            if uri is not None:
                pages = self.log(result, copy, uri)
                store = str(open_mlflow(uri))
                echo(labelled("MLflow   ", store))
                for what, address in pages.items():
                    echo(labelled(f"{what:<8} ", address))
        return {
            "kind": str(self.settings.kind),
            "name": self.name,
            "output": str(folder),
            "page": page,
            "mlflow": store,
            "mlflow_pages": dict(pages),
            "from_store": self.taken > 0 and not self.made,
            "seconds": 0.0,
        }

    def _is_finished(self, folder: Place) -> bool:
        return bool(self.result_file) and (folder / self.result_file).exists()


def experiment_of(name: str) -> type[Experiment[Any, Any]]:
    """The class of a kind, whole.

    Raises:
        ConfigError: there is none of that name, its plug-in cannot be imported, or it is something
            else.
    """
    found: type[Experiment[Any, Any]] = KINDS.load(name, Experiment, subclass=True)
    return found
