"""Workloads: one tensor operation as a perfect affine loop nest, by name, file or text."""
