"""stack.NAME: whether a package does what it is installed for, put into the table by its import, in this order."""

from envspec_check.checks.stack.packages import numpy as numpy  # noqa: I001 -- the table's order
from envspec_check.checks.stack.packages import safetensors as safetensors
from envspec_check.checks.stack.packages import torchvision as torchvision
from envspec_check.checks.stack.packages import torchaudio as torchaudio
from envspec_check.checks.stack.packages import transformers as transformers
from envspec_check.checks.stack.packages import timm as timm
from envspec_check.checks.stack.packages import deit_small as deit_small
from envspec_check.checks.stack.packages import clip as clip
from envspec_check.checks.stack.packages import diffusers as diffusers
from envspec_check.checks.stack.packages import peft as peft
from envspec_check.checks.stack.packages import accelerate as accelerate
from envspec_check.checks.stack.packages import deepspeed as deepspeed
