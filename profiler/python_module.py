"""A Python file of the user's as a module: problems, Python and Triton variants. It may import what lies beside it."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_python(path: Path) -> ModuleType:
    """Run a Python file and return its module, once in a process. What the file raises comes out, and leaves nothing.

    While it runs, its folder is the first of ``sys.path``. Modules that it imports from there are its own: another file
    gets the ones beside itself, though they have the same names, as two versions of one experiment do. So such an
    import belongs at the top of the file; inside a function that is called later it finds nothing.
    """
    resolved = path.resolve()
    name = f"kernel_ladder_{hashlib.sha256(str(resolved).encode()).hexdigest()[:16]}_{resolved.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder, known = str(resolved.parent), set(sys.modules)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        if folder in sys.path:  # the file may have changed it
            sys.path.remove(folder)
        beside = {other.partition(".")[0] for other in set(sys.modules) - known if _lies_in(resolved.parent, other)}
        for other in set(sys.modules) - known - {name}:
            if other.partition(".")[0] in beside:
                del sys.modules[other]
    return module


def _lies_in(folder: Path, name: str) -> bool:
    """Whether a module is a file right in a folder, or a package there: no part of an environment further down."""
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and Path(file).resolve() in (folder / f"{name}.py", folder / name / "__init__.py")
