"""`python -m bench [NAME…]`: every benchmark, or those named."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = (
    "start_up",
    "check_speed",
    "lock_speed",
    "sharing",
    "conda_speed",
    "doctor_speed",
    "diff_speed",
    "why_speed",
    "run_speed",
    "report_page",
    "export_speed",
    "first_hours",
    "year",
)

for name in sys.argv[1:] or NAMES:
    import_module(f"bench.{name}").main()
