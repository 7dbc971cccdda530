"""What the package ships: types that are true, examples that run, a notebook that answers."""

import ast
import doctest
import inspect
import json
import os
import re
import subprocess
import sys

import inputs
import onefold
import pandas
from conftest import ROOT
from onefold import _onefold


def test_the_type_stubs_say_what_is_there(tmp_path):
    # Methods that Python makes of the sequence and buffer protocols, and a metaclass of fsspec's.
    allowed = tmp_path / "allowed"
    allowed.write_text(
        "onefold._onefold.(CutPoints|Fingerprints).__(buffer|iter)__\n"
        "onefold.fsspec.OnefoldFileSystem\n"
    )
    folder = os.path.dirname(onefold.__file__)
    assert os.path.exists(os.path.join(folder, "py.typed"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "onefold", "--ignore-missing-stub"]
        + ["--ignore-unused-allowlist", "--allowlist", allowed],
        capture_output=True,
        text=True,
        cwd="/",
        env={**os.environ, "MYPY_CACHE_DIR": os.devnull},
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_program_that_uses_the_package_is_checked_by_its_types(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import onefold\n"
        "cuts: onefold.CutPoints = onefold.cut(b'data', avg=64)\n"
        "first: int = cuts[0]\n"
        "names: list[bytes] = list(onefold.fingerprint_chunks(b'data', cuts))\n"
        "entry: str = onefold.Repository.open('place').stat('latest:x').kind\n"
        "wrong: str = cuts[0]\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and ":6: error: Incompatible types" in errors[0], checked.stdout


def test_what_is_compiled_has_the_docstrings_of_its_stub():
    stub = ast.parse((ROOT / "python" / "onefold" / "_onefold.pyi").read_text())
    compared = 0
    for node in stub.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        item = getattr(_onefold, node.name)
        inner = [one for one in getattr(node, "body", []) if isinstance(one, ast.FunctionDef)]
        documented = [(node, item)] + [(one, getattr(item, one.name, None)) for one in inner]
        for written, found in documented:
            text = ast.get_docstring(written)
            if text is not None:
                assert inspect.cleandoc(found.__doc__ or "") == text, f"{node.name}.{written.name}"
                compared += 1
    assert compared > 50


def test_everything_public_is_documented():
    for name in onefold.__all__:
        assert getattr(onefold, name).__doc__, name


def test_the_example_of_the_package_runs():
    assert doctest.testmod(onefold).failed == 0


def test_examples_in_the_documentation_run(tmp_path, monkeypatch):
    """All of them, one after another, among the files that they name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name in ("disk.img", "photos/one.jpg"):
        (tmp_path / name).write_bytes(inputs.splitmix64(len(name), 3_000_000))
    pandas.DataFrame({"value": range(10)}).to_csv(tmp_path / "photos" / "list.csv", index=False)
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/python.md, block {number}", "exec"), names)


def test_the_notebook_compares_chunkers_on_files(tmp_path):
    """Its cells, one after another, away from the sources, which would be imported instead."""
    data = inputs.splitmix64(4, 2_000_000)
    (tmp_path / "one").write_bytes(data)
    (tmp_path / "two").write_bytes(data[:900_000] + b"changed" + data[900_000:])
    notebook = json.loads((ROOT / "python" / "chunkers.ipynb").read_text())
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells), "it is kept without outputs"
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join("".join(cell["source"]) for cell in cells)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "ONEFOLD_NOTEBOOK_FILES": str(tmp_path)},
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "2 files, 4,000,007 bytes" in lines
    rows = [line.split() for line in lines if line.startswith(("mincdc", "fixed"))]
    saved = {name: float(percent) for name, percent, *_ in rows}
    assert saved["mincdc"] > 45 > saved["fixed"]
