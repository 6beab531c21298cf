"""Pages are written into the folder that they are of, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mapspace.errors import ConfigError
from orchestrator.pool.event_log import open_events
from orchestrator.report.document import Document, Section
from orchestrator.report.page import write_page
from orchestrator.sweep.proofs import _kept_in


def test_a_link_out_of_a_run_is_not_followed(tmp_path: Path) -> None:
    """A run folder may be somebody else's, and say where its figures and proofs go."""
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    other.mkdir()
    for name in ("figures", "proofs.jsonl", "events.jsonl"):
        (run / name).symlink_to(other / name)
    (other / "figures").mkdir()
    document = Document("name", "", [Section("heading", [])])
    with pytest.raises(ConfigError, match="figures: expected no link out of its folder, found one"):
        write_page(document, run / "page.html", run / "figures")
    with pytest.raises(ConfigError, match="expected no link"), _kept_in(run / "proofs.jsonl"):
        pass
    with pytest.raises(ConfigError, match="expected no link"), open_events(run / "events.jsonl"):
        pass
    assert [entry.name for entry in other.iterdir()] == ["figures"]
    assert not list((other / "figures").iterdir())


def test_links_within_a_run_are_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "figures").symlink_to("elsewhere")
    document = Document("name", "", [Section("heading", [])])
    write_page(document, tmp_path / "page.html", tmp_path / "figures")
    # The run folder itself may be one, as whoever names it wants.
    (tmp_path / "link").symlink_to(tmp_path)
    write_page(document, tmp_path / "link" / "page.html", tmp_path / "link")
    assert (tmp_path / "page.html").is_file()
