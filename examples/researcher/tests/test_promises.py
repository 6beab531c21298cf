"""The method keeps every promise of a searcher."""

from mapspace.testing import SearcherContract


class TestTabu(SearcherContract):
    """Tabu search."""

    names = ("tabu",)
