"""Measurements. Each runs all its sides in one go and reports ratios: on a shared machine, times mean little."""
