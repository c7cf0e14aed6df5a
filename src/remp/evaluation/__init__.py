"""Accuracies of episodes with their intervals, methods compared on the same episodes, and methods audited for leaks."""
