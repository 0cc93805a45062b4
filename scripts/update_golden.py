#!/usr/bin/env python3
"""Write the golden files of tests/unit/golden anew from their inputs; look at the difference before you keep it.

    scripts/update_golden.py [--check]

--check writes nothing and exits 1 when a file would change.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import golden  # noqa: E402


def main(argv: list[str]) -> int:
    """Rewrite or check; return the exit code."""
    changed = []
    wanted = {golden.expected(path): golden.rendered(path) for path in golden.inputs()} | golden.others()
    for target, text in wanted.items():
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            changed.append(target)
            if "--check" not in argv:
                target.write_text(text, encoding="utf-8")
    for target in changed:
        print(target.relative_to(ROOT))
    print(f"{len(changed)} of {len(wanted)} golden files {'differ' if '--check' in argv else 'written'}")
    return 1 if changed and "--check" in argv else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
