"""AccelForge's files, read."""
