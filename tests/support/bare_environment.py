"""An environment with the wheel and what it requires, and nothing else: without Spark.

``python -m tests.support.bare_environment WHEEL FOLDER`` makes it from the packages that are
installed beside this Python, so that nothing is downloaded.
"""

import re
import subprocess
import sys
from importlib.metadata import distribution, distributions
from pathlib import Path


def make(wheel: Path, folder: Path) -> Path:
    """Returns the ``bin`` of the new environment *folder*."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([python, *install], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (ours,) = distributions(name="kafka-replication-on-spark", path=[str(packages)])
    waiting, done = [*(ours.requires or [])], set[str]()
    while waiting:
        requirement, _, condition = waiting.pop().partition(";")
        name = re.split(r"[^A-Za-z0-9._-]", requirement.strip())[0]
        if "extra" in condition or "python_version <" in condition or name in done:
            continue
        done.add(name)
        found = distribution(name)
        waiting += found.requires or []
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(str(found.locate_file(top)))
    return python.parent


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
