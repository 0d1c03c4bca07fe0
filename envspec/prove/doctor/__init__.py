"""Checks of a machine, and of a spec on given hardware: findings with remedies."""
