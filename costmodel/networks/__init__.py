"""Networks of workloads: layers by name or file, chains, what moves between layers."""
