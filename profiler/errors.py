"""Errors that end a command, and the exit codes they end it with."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the commands (docs/troubleshooting.md lists them per command)."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    SUSPECTED = 4
    BROKEN = 5
    INTERRUPTED = 130


class LadderError(Exception):
    """An error with one clear line for the user, the next step, and an exit code."""

    def __init__(self, message: str, *, hint: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(LadderError):
    """The command line or an input file is wrong (exit 2)."""
