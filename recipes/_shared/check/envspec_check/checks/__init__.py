"""The checks, put into the table by their import: a group's in the order in which they stand here."""

from envspec_check.checks import installed as installed  # noqa: I001 -- the table's order
from envspec_check.checks import files as files
from envspec_check.checks import unowned as unowned
from envspec_check.checks import bytecode as bytecode
from envspec_check.checks import isolation as isolation
from envspec_check.checks import runtimes as runtimes
from envspec_check.checks import libraries as libraries
from envspec_check.checks import figures as figures
from envspec_check.checks import gpu as gpu
from envspec_check.checks import operators as operators
from envspec_check.checks import gemm as gemm
from envspec_check.checks import attention as attention
from envspec_check.checks import by_hand as by_hand
from envspec_check.checks import recorded as recorded
from envspec_check.checks import memory_saved as memory_saved
from envspec_check.checks import reference as reference
from envspec_check.checks import precision as precision
from envspec_check.checks import training as training
from envspec_check.checks import optimizers as optimizers
from envspec_check.checks import ddp as ddp
from envspec_check.checks import data_parallel as data_parallel
from envspec_check.checks import determinism as determinism
from envspec_check.checks import compile as compile
from envspec_check.checks import extension as extension
from envspec_check.checks import dataloader as dataloader
from envspec_check.checks import collectives as collectives
from envspec_check.checks.stack import imports as imports
from envspec_check.checks.stack import packages as packages
from envspec_check.checks import frameworks as frameworks
