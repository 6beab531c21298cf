"""What is proven again, and proven fronts: `mapspace verify` and `mapspace pareto`."""
