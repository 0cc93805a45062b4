"""Program of the child that compiles a Triton file ahead of time: ``FILE FUNCTION SIZES DTYPE OUT_DIR [MORE]``.

Calls the file's ``compile_for(sizes, dtype)``, which returns ``{name: cubin bytes}``, and writes ``<name>.cubin``.
SIZES is a JSON list of dims; MORE a JSON object of keywords (``options``, ``arch``), of which the function gets those
that it declares. Exit 3: no Triton here; 4: the file has no ``compile_for``; 1: it failed.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
import traceback
from pathlib import Path

from profiler.python_module import load_python

OK, FAILED, NO_TRITON, NO_FUNCTION = 0, 1, 3, 4


def main(argv: list[str]) -> int:
    """Compile and write the cubins; return the exit code."""
    file, _function, sizes, dtype, out, *more = argv
    source = Path(file)
    if "def compile_for" not in source.read_text(encoding="utf-8", errors="replace"):
        return NO_FUNCTION
    if importlib.util.find_spec("triton") is None:
        return NO_TRITON
    try:
        compile_for = getattr(load_python(source), "compile_for", None)
        if compile_for is None:
            return NO_FUNCTION
        declared = inspect.signature(compile_for).parameters
        keywords = {key: value for key, value in json.loads(more[0] if more else "{}").items() if key in declared}
        for name, cubin in compile_for(json.loads(sizes), dtype, **keywords).items():
            safe = re.sub(r"[^A-Za-z0-9_.-]+", "_", str(name)).lstrip(".") or "kernel"
            (Path(out) / f"{safe}.cubin").write_bytes(cubin)
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return FAILED
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
