"""Ask an environment whether it works: a folder that needs the standard library and the locked framework, no envspec.

    python -I DIR --config target.json [--workload NAME] [--steps N]
        [--device auto|cuda|cpu] [--quick] [--deep] [--seed 0] [--json FILE|-] [--junit FILE] [--only GROUP]...
        [--timeout SECONDS] [--scratch DIR]

Ten groups of checks, each check in a process of its own with a time limit: a crash, a hang or a process that ran
out of memory is one failed check, told with the end of its output. Sanity decides pass or fail. Figures are compared
with references and decide nothing. What can't be checked here is skipped with its reason, and a skip is never counted
as a pass.

Runs with Python 3.8 and newer, torch 2.0 and newer, on Linux. Progress is told on stderr.
Exit status: 0 a check passed and none failed, 1 a check failed or all were skipped, 2 wrong usage or a
target.json that can't be read, 130 interrupted.
"""

from __future__ import annotations

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    # Python 3.8 leaves the folder's name as it was given, and checks change their working directory.
    sys.path[:] = [FOLDER, *(path for path in sys.path if os.path.abspath(path) != FOLDER)]

    from envspec_check import checks, workloads  # noqa: F401 -- they fill the tables
    from envspec_check.command import main

    sys.exit(main())
