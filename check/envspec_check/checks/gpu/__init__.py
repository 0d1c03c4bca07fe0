"""The checks of GPUs alone, put into the table by its import, in this order."""

from envspec_check.checks.gpu import libraries as libraries  # noqa: I001 -- the table's order
from envspec_check.checks.gpu import versions as versions
from envspec_check.checks.gpu import device as device
from envspec_check.checks.gpu import fabric as fabric
from envspec_check.checks.gpu import float8 as float8
from envspec_check.checks.gpu import health as health
