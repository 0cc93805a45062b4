"""The one loader of a user's Python: neighbours, versions side by side, what is left after an error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profiler.python_module import load_python


def project(folder: Path, value: int) -> Path:
    folder.mkdir()
    (folder / "numbers_beside.py").write_text(f"VALUE = {value}\n")
    (folder / "package_beside").mkdir()
    (folder / "package_beside" / "__init__.py").write_text("from package_beside.deep import DEEP\n")
    (folder / "package_beside" / "deep.py").write_text(f"DEEP = {value} * 10\n")
    file = folder / "variant.py"
    file.write_text(
        "from numbers_beside import VALUE\nfrom package_beside import DEEP\n\n\ndef both():\n    return VALUE, DEEP\n"
    )
    return file


def test_two_versions_each_have_their_own_neighbours(tmp_path: Path) -> None:
    before, after = project(tmp_path / "before", 1), project(tmp_path / "after", 2)
    path = list(sys.path)
    assert load_python(before).both() == (1, 10)
    assert load_python(after).both() == (2, 20)
    assert load_python(before).both() == (1, 10)
    assert load_python(before) is load_python(before)
    assert sys.path == path
    assert not {"numbers_beside", "package_beside", "package_beside.deep"} & set(sys.modules)


def test_an_environment_below_the_folder_is_not_a_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "venv" / "site-packages"
    site.mkdir(parents=True)
    (site / "library_of_the_venv.py").write_text("LOADED = []\n")
    monkeypatch.syspath_prepend(str(site))
    (tmp_path / "variant.py").write_text("import library_of_the_venv\n")
    load_python(tmp_path / "variant.py")
    assert sys.modules.pop("library_of_the_venv").LOADED == []


def test_what_a_file_raises_comes_out_and_it_can_be_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "variant.py"
    file.write_text("import sys\nsys.path.clear()\nraise SystemExit(3)\n")
    path = list(sys.path)
    with pytest.raises(SystemExit):
        load_python(file)
    sys.path[:] = path
    file.write_text("VALUE = 4\n")
    assert load_python(file).VALUE == 4


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("")
    with pytest.raises(ImportError, match=r"kernel\.cu is not a Python file"):
        load_python(tmp_path / "kernel.cu")
