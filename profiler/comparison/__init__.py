"""Two runs held against each other: verdicts, causes, and what must be equal for either to mean anything."""
