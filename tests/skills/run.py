"""Runs the tests of all skills, each file as a process of its own, as many at once as there are cores.

What they do is mostly to start programs, and those need not wait for each other.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(name):
    return subprocess.run(
        [sys.executable, "-m", "unittest", name], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False
    )


def main():
    # The longest ones first.
    files = sorted(HERE.glob("test_*.py"), key=lambda path: -path.stat().st_size)
    names = [path.stem for path in files]
    failed = []
    with ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        for name, ran in zip(names, pool.map(run, names)):
            lines = ran.stdout.strip().split("\n")
            print(f"{name}: {' '.join(line for line in lines[-3:] if line)}" if ran.returncode == 0 else ran.stdout, flush=True)
            # From Python 3.12 on, a run without tests fails by itself.
            if ran.returncode or "Ran 0 tests" in ran.stdout:
                failed.append(name)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
