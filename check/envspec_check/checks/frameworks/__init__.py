"""The checks of frameworks beside torch, each in a module of its own, put into the table by its import."""

from envspec_check.checks.frameworks import jax as jax  # noqa: I001 -- the table's order
from envspec_check.checks.frameworks import tensorflow as tensorflow
from envspec_check.checks.frameworks import onnxruntime as onnxruntime
from envspec_check.checks.frameworks import cupy as cupy
from envspec_check.checks.frameworks import rapids as rapids
from envspec_check.checks.frameworks import together as together
