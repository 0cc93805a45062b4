"""Programs that run on the GPU in processes of their own: the worker (checks, times) and the profiled program.

Only these modules import torch. They are spoken to with one JSON object a line.
"""
