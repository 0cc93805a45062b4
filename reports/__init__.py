"""Frames of a run -> one HTML file. Starts no process and reads no raw tool file."""
