"""Size of the wheel, and size and seconds of an install with the core dependencies alone.

``python -m benchmarks.install 4848b31 HEAD`` adds to benchmarks/results/install.json: each commit
is built from an archive, and installed into an empty environment from pip's own cache, which an
install before the timed ones fills. The time is pip's, wheels of dependencies included.
"""

import json
import sys
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness import describe_machine
from benchmarks.release import RESULTS, ROOT, run, size


def build(commit, folder):
    """The wheel of a commit."""
    tree, archive = folder / "tree", folder / "tree.tar"
    run("git", "-C", ROOT, "archive", "--output", archive, commit)
    with tarfile.open(archive) as packed:
        packed.extractall(tree, filter="data")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, tree)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel, folder):
    """Megabytes and seconds of the wheel and what it depends on."""
    run(sys.executable, "-m", "venv", folder)
    python, packages = folder / "bin" / "python", next(folder.glob("lib/python*/site-packages"))
    before, start = size(packages), time.perf_counter()
    run(python, "-m", "pip", "install", "-q", "--no-compile", wheel)
    seconds, own = time.perf_counter() - start, size(packages / "localconformal")
    names = json.loads(run(python, "-m", "pip", "list", "--format", "json"))
    return {
        "seconds": round(seconds, 1),
        "megabytes": round((size(packages) - before) / 1e6, 1),
        "own_megabytes": round(own / 1e6, 3),
        "packages": sorted({one["name"] for one in names} - {"pip", "setuptools"}),
    }


def main(commits):
    command, found = f"python -m benchmarks.install {' '.join(commits)}", {}
    with TemporaryDirectory() as folder:
        wheels = {}
        for commit in commits:
            # Now: HEAD may be another one when all is built.
            full = run("git", "-C", ROOT, "rev-parse", commit).strip()
            place = Path(folder, full)
            place.mkdir()
            wheels[full] = build(full, place)
        install(next(iter(wheels.values())), Path(folder, "first"))
        for full, wheel in wheels.items():
            kilobytes = round(wheel.stat().st_size / 1e3, 1)
            found[full] = {"wheel_kilobytes": kilobytes, **install(wheel, wheel.parent / "env")}
            found[full] |= {"command": command, "machine": describe_machine()}
    known = json.loads(RESULTS.read_text(encoding="utf-8"))
    known["commits"] |= found
    RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:] or ["4848b31", "HEAD"])
