"""The lab: envspec's answers beside uv's, pip's and rattler's, on what people install. `make lab`; docs/evidence.md.

PYTHONPATH=tests python -m bench.lab [NAME…]               # goes on where the last run ended, for 90 minutes
PYTHONPATH=tests python -m bench.lab --part installs       # answers, conda or installs alone
PYTHONPATH=tests python -m bench.lab --recorded jax timm   # answers from the recording, without a network
"""
