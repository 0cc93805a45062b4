"""The commands. Thin: they read flags, call the profiler, print, and turn errors into exit codes."""
