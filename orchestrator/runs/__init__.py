"""What every long run needs: its folder, lock, checkpoints, progress, and Ray."""
