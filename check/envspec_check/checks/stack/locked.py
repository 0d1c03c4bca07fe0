"""Checks of packages that a target locks beside torch."""

from __future__ import annotations

import importlib.util
import os
import traceback
from typing import Any, Callable, Dict, Optional

from envspec_check.failures import root_cause
from envspec_check.import_failures import import_remedy
from envspec_check.interface import Context, Fault, Outcome, Skip, check
from envspec_check.lock import numbers, pins

AGAIN = "install the environment again from its lock"

Used = Callable[[Context, Any], Outcome]


def describe(ctx: Context, name: str) -> str:
    """Return a locked package and the file that it is installed from."""
    for kind in ("pip", "conda"):
        for package in ctx.lock.get(kind, []):
            if package["name"] == name:
                files = [artifact["file"] for artifact in package.get("artifacts", ())]
                return "%s %s%s" % (name, package.get("version", ""), " (%s)" % files[0] if files else "")
    return name


def stack_check(
    name: str, *modules: str, module: Optional[str] = None, called: Optional[str] = None, needs: Optional[str] = None
) -> Callable[[Used], Used]:
    """Put a check of a package into the table, as stack.NAME, or as it is `called`. It gets the package's module, of
    which others were imported before; whatever the package raises fails it in words. Where the target doesn't lock it,
    it is skipped."""

    def put(function: Used) -> Used:
        def run(ctx: Context) -> Outcome:
            if name not in {pin.name for pin in pins(ctx.lock)}:
                raise Skip(f"the target locks no {name}")
            settle(ctx)
            what = "be imported"
            try:
                for other in modules:
                    importlib.import_module(other)
                package = importlib.import_module(module or name)
                what = "be used"
                return function(ctx, package)
            except (Fault, Skip):
                raise
            except Exception as error:  # noqa: BLE001, whatever a package raises
                traceback.print_exc()
                text = root_cause(error)
                reason = f"{describe(ctx, name)} can't {what} with torch {ctx.torch.__version__}: {text}"
                raise Fault(reason, import_remedy(text) or import_remedy(traceback.format_exc()) or AGAIN) from None

        check("stack." + (called or name), needs=needs)(run)
        return function

    return put


def settle(ctx: Context) -> None:
    """Make packages that load models and keep caches write below the scratch folder, and ask no network."""
    home = str(ctx.scratch)
    quiet: Dict[str, str] = {
        "HF_HOME": home,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TORCH_HOME": home,
        "TORCH_EXTENSIONS_DIR": home,
        "MPLCONFIGDIR": home,
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_MODE": "disabled",
    }
    os.environ.update(quiet)
    if ctx.device == "cpu" and has_accelerator_for_cpus(ctx.lock):
        os.environ["DS_ACCELERATOR"] = "cpu"  # which deepspeed guesses when it is imported


def has_accelerator_for_cpus(lock: Dict[str, Any]) -> bool:
    """Return whether the locked deepspeed has an accelerator for CPUs: 0.9.2 to 0.14.0 have Intel's extension of torch,
    and refuse the name without it (accelerator/real_accelerator.py of the sdists)."""
    versions = [numbers(pin.version) for pin in pins(lock) if pin.name == "deepspeed"]
    by_itself = all(version >= (0, 14, 1) for version in versions)
    return bool(versions) and (by_itself or importlib.util.find_spec("intel_extension_for_pytorch") is not None)
