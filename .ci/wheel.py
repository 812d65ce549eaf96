"""Build the wheel, install it alone in a fresh environment, import every module from it.

A checkout without working symlinks builds a wheel that lacks whole folders; only importing
from the installed wheel shows that.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONAL = {"limen.bench", "limen.cli"}  # need extras; imported in the second pass
IMPORT_ALL = """
import importlib, pathlib, sys
import limen
root = pathlib.Path(limen.__file__).parent
assert "site-packages" in str(root), root
skip = tuple(sys.argv[1:])
count = 0
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if name.endswith("__main__") or name.startswith(skip):
        continue
    importlib.import_module(name)
    count += 1
print(f"imported {count} modules from {root}")
"""


def run(*command: str | Path) -> None:
    """Run one step and stop with its own output when it fails."""
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT)


def main() -> None:
    """Build, install and import, first with the base dependencies, then with all extras."""
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder)
        python = box / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        venv.create(box / "venv", with_pip=True)
        run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", box, ROOT)
        (wheel,) = box.glob("limen-*.whl")
        folders = {name.split("/")[1] for name in zipfile.ZipFile(wheel).namelist()}
        missing = {"transport", "scheduler", "codecs", "bench", "cli"} - folders
        if missing:
            sys.exit(f"the wheel lacks {sorted(missing)}: are src/limen's symlinks intact?")
        run(python, "-m", "pip", "install", "--quiet", wheel)
        run(python, "-I", "-c", IMPORT_ALL, *sorted(OPTIONAL))
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[all]")
        run(python, "-I", "-c", IMPORT_ALL, "nothing")


if __name__ == "__main__":
    main()
