"""What a benchmark found: results, statistics, the comparison page and its figures."""
