"""Where the project's data lie: the checkout first, then the copy inside the installed package.

An editable install must not serve stale copies, so a checkout (a folder that holds ``pyproject.toml`` and ``kernels/``
beside the package) always wins.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """Return the folder that holds ``kernels/`` and ``experiments/``."""
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "kernels").is_dir():
        return checkout
    return _PACKAGE / "_data"


def kernels() -> Path:
    """Return the folder of the kernels that ship with the project."""
    return root() / "kernels"


def experiments() -> Path:
    """Return the folder of the experiments that ship with the project."""
    return root() / "experiments"


def recorded() -> Path:
    """Return the folder of recorded runs: ``<gpu>/<experiment>/``."""
    return experiments() / "recorded"
