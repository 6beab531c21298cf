"""The orchestrator package."""
