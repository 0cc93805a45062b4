"""Functions that an experiment file names. Importing this file fails, and no check may notice."""

raise RuntimeError("a check must not run code of the experiment")


def setup(a, b, *, out):
    del a, b, out


def matmul(a, b, out, *, transpose=False):
    del a, b, out, transpose
