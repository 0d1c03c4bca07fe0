"""The workloads, put into WORKLOADS by their import: in the order in which `--help` names them.

An export carries the one that its targets train, and `wide`, which `training.reference` trains for each."""

from envspec_check.interface import WORKLOAD_NAMES
from envspec_check.left_out import is_here
from envspec_check.workloads import wide as wide

for _name in WORKLOAD_NAMES:
    is_here(__name__, _name)
