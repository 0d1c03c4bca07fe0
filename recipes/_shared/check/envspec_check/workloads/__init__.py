"""The workloads, put into WORKLOADS by their import: in the order in which `--help` names them. `wide` is what
`training.reference` trains for each."""

from envspec_check.workloads import basic as basic  # noqa: I001 -- the table's order
from envspec_check.workloads import multimodal as multimodal
from envspec_check.workloads import llm as llm
from envspec_check.workloads import deit as deit
from envspec_check.workloads import dynamic as dynamic
from envspec_check.workloads import wide as wide
