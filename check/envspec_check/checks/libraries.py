"""static.import and static.torch: the torch that is imported."""

from __future__ import annotations

import os

from envspec_check.environment import is_within, own_roots
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.lock import locked_torch, numbers, same_version


@check("static.import")
def static_import(ctx: Context) -> Outcome:
    """torch can be imported. Where it can't, this is the check that says so: all others that need it are skipped."""
    return passed(details={"version": str(ctx.torch.__version__), "file": ctx.torch.__file__})


@check("static.torch")
def static_torch(ctx: Context) -> Outcome:
    """The torch that is imported is the locked one, of the target's CUDA and from the environment."""
    torch, pin, wrong = ctx.torch, locked_torch(ctx.lock), []
    version, cuda, expected = str(torch.__version__), torch.version.cuda, ctx.target.get("cuda")
    if pin is None:
        raise Skip("the target locks no torch")
    # Conda's builds have no local part in their version; those from PyPI say +cu128 though their file doesn't.
    exact = "+" in pin.version
    if not same_version(pin.version, version if exact else version.partition("+")[0]):
        wrong.append(f"torch is {version}, locked is {pin.version}")
    if (numbers(cuda)[:2] if cuda else None) != (numbers(expected)[:2] if expected else None):
        wrong.append(f"torch is built for {cuda_words(cuda)}, the target for {cuda_words(expected)}")
    if not is_within(os.path.realpath(torch.__file__), own_roots()) and not is_within(torch.__file__, own_roots()):
        wrong.append(f"torch is imported from {os.path.dirname(torch.__file__)}, outside the environment")
    details = {"version": version, "cuda": cuda, "locked": pin.version, "file": torch.__file__}
    if wrong:
        return failed("; ".join(wrong), "install the environment again from its lock", details=details)
    return passed(details=details)


def cuda_words(version: str | None) -> str:
    return f"CUDA {version}" if version else "CPUs only"
