"""The sections of the report: frames in, content out. Pure."""
