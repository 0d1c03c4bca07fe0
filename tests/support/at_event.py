"""A process that signals itself at a state of its own, where a test would otherwise guess when that state is reached.

Python tells audit hooks what it is about to do; a `sitecustomize` of the test's adds one before the program starts.
"""

import os
import signal
from pathlib import Path

from support.machine import ROOT

_HOOK = """
import os, sys
left = [{count}]
def hook(event, args):
    if left[0] and {condition}:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), {number})
sys.addaudithook(hook)
"""


def signal_at(folder: Path, count: int, number: signal.Signals, condition: str = "True") -> dict[str, str]:
    """Give the variables with which a Python process signals itself just before its audit event number `count`, of
    those for which `condition` (an expression of `event` and `args`) holds."""
    folder.mkdir(exist_ok=True)
    text = _HOOK.format(count=count, condition=condition, number=int(number))
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}
