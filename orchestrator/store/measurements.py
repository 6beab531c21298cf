"""Measured tilings in the store: rows of kind `evaluation`, a tiling each, as they are measured."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from costmodel.tiling.measurement import STATUS_RUN_FAILED, Measurement
from costmodel.tiling.measurement_store import Measurements
from mapspace.errors import DataError
from mapspace.version import __version__
from orchestrator.store.address import Question
from orchestrator.store.compaction import tidy
from orchestrator.store.folder import Store
from orchestrator.store.rows import Row


class StoredMeasurements:
    """Measurements of one product, read from the store and kept there.

    Attributes:
        found: answers that were read so far.
    """

    def __init__(self, store: Store, besides: Measurements, workload: str, version: str) -> None:
        """Takes what was there before.

        Args:
            store: where measurements are read first, and kept.
            besides: this machine's own file, which benchmarks measure with: read second, and kept
                in likewise.
            workload: the product's name, for those who ask the store for it.
            version: of the model that measures.
        """
        self.found = 0
        self._store, self._besides = store, besides
        self._workload, self._version = workload, version

    def find(self, keys: Sequence[str]) -> list[Measurement | None]:
        """What is known of keys `[B]`, None where nothing is.

        Raises:
            DataError: the machine's own file cannot be read.
        """
        questions = [_question(key).question for key in keys]
        rows = {row.question: row for row in self._store.rows(set(questions))}
        known = [self._read(rows[asked]) if asked in rows else None for asked in questions]
        self.found += sum(one is not None for one in known)
        left = [place for place, one in enumerate(known) if one is None]
        more = self._besides.find([keys[place] for place in left])
        for place, measurement in zip(left, more, strict=True):
            if measurement is not None:
                self._add(keys[place], measurement)
                known[place] = measurement
        return known

    def keep(self, key: str, measurement: Measurement) -> None:
        """Keeps one measurement, unless it failed while running: another time it may not.

        Raises:
            DataError: the machine's own file cannot be written.
        """
        self._besides.keep(key, measurement)
        self._add(key, measurement)

    def close(self) -> None:
        """Brings rows together where they are many."""
        tidy(self._store)

    def _add(self, key: str, measurement: Measurement) -> None:
        if measurement.status == STATUS_RUN_FAILED:
            return
        question = _question(key)
        row = Row(
            kind="evaluation",
            question=question.question,
            address=question.address,
            workload=self._workload,
            workload_hash="",
            problem="",
            accelerator=str(question.content["measurement"].get("hardware", "")),
            accelerator_hash="",
            objective="latency",
            model="measured",
            model_version=self._version,
            method="",
            iterations=1,
            seconds=measurement.spent,
            stored=time.time(),
            mapspace=__version__,
            payload=json.dumps({"key": key, "measurement": measurement.to_json()}),
        )
        self._store.add([row])

    def _read(self, row: Row) -> Measurement | None:
        try:
            return Measurement.from_json(row.content()["measurement"])
        except (DataError, KeyError, TypeError) as error:
            self._store.tell(f"row {row.name}: {error} It is measured anew.")
            return None


def _question(key: str) -> Question:
    return Question({"kind": "measurement", "measurement": json.loads(key)}, {})
