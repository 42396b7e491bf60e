"""What every part of a cluster reports of itself: one typed status, made here and listed nowhere else."""
