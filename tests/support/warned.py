"""A training program that is warned before its end: `train.py FOLDER KIND WHEN SIGNAL`. It looks for the
file, handles the signal, or does neither; with WHEN "after" it saves and goes on.
"""

KINDS = ("polls", "handles", "neither")
TRAINS = """
import os, signal, sys, time
from pathlib import Path

folder, kind, goes_on = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "after"
rank, warning, told = os.environ["RANK"], Path(os.environ["ENVSPEC_CHECKPOINT"]), []
if kind == "handles":
    signal.signal(signal.Signals["SIG" + sys.argv[4]], lambda *_: told.append(1))
(folder / f"ready-{rank}").touch()
while not (folder / "enough").exists():
    if told or (kind == "polls" and warning.exists()):
        if rank == "0":
            warning.write_text("7")
        if not goes_on:
            time.sleep(2)  # it takes its time to end
            break
    time.sleep(0.1)
(folder / f"ended-{rank}").touch()
"""
