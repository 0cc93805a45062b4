"""Frames in, ladder rows, roofline points, stall tables and intervals out. Pure."""
