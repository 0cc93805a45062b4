"""kernel-ladder: from an experiment file to verified, timed and profiled GPU kernels."""

__version__ = "0.1.0"
