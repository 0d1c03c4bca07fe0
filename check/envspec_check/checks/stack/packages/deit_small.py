"""stack.deit_small: the real model trains on files of images, as its users train it."""

from __future__ import annotations

import importlib
from typing import Any, List

from envspec_check.checks.stack.beside_float64 import REMEDY
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, Skip, failed, passed
from envspec_check.trainer import fp16_scaler

IMAGES, BATCH, EPOCHS = 256, 32, 10

KNOWN = 0.35
"""The most that the last epoch's loss may be: half of that of guessing between two classes."""


def write_images(ctx: Context, vision: Any, count: int) -> str:
    """Write a folder of JPEGs in two classes, of which one is red and one blue."""
    torch, folder = ctx.torch, ctx.scratch / "images"
    drawn = torch.Generator().manual_seed(ctx.seed)
    for at in range(count):
        place = folder / ("blue", "red")[at % 2]
        place.mkdir(parents=True, exist_ok=True)
        image = torch.randint(0, 120, (3, 288, 320), generator=drawn)
        image[2 - 2 * (at % 2)] += 120
        vision.io.write_jpeg(image.to(torch.uint8), str(place / ("%03d.jpg" % at)))
    return str(folder)


def train_on_files(
    ctx: Context, timm: Any, images: int = IMAGES, epochs: int = EPOCHS, batch: int = BATCH, **shape: int
) -> Outcome:
    """Train deit_small, or another shape of it, at 224 pixels on an ImageFolder: autocast to fp16, GradScaler, AdamW
    at 1e-4."""
    torch, vision = ctx.torch, importlib.import_module("torchvision")
    data, parts = importlib.import_module("torchvision.datasets"), importlib.import_module("torchvision.transforms")
    usual = [parts.Resize(256), parts.CenterCrop(224), parts.ToTensor()]
    usual.append(parts.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    items = data.ImageFolder(write_images(ctx, vision, images), parts.Compose(usual))
    order = torch.Generator().manual_seed(ctx.seed)
    options = {"num_workers": 4, "pin_memory": ctx.device == "cuda", "shuffle": True, "generator": order}
    loader = torch.utils.data.DataLoader(items, batch_size=batch, **options)
    torch.manual_seed(ctx.seed)
    model = timm.create_model("deit_small_patch16_224", num_classes=2, **shape).to(ctx.torch_device)
    optimizer, scaler = torch.optim.AdamW(model.parameters(), lr=1e-4), fp16_scaler(ctx.device)
    losses: List[float] = []
    for _ in range(epochs):
        for rows, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(ctx.device, dtype=torch.float16):
                logits = model(rows.to(ctx.torch_device, non_blocking=True))
                loss = torch.nn.functional.cross_entropy(logits, labels.to(ctx.torch_device))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    few = max(1, len(losses) // epochs)
    first, last = sum(losses[:few]) / few, sum(losses[-few:]) / few
    details, curves = {"images": images, "epochs": epochs, "first": first, "last": last}, {"stack.deit_small": losses}
    if not last <= KNOWN:
        reason = f"deit_small's loss went from {first:.3g} to {last:.3g} in {epochs} epochs; {KNOWN:g} is allowed"
        return failed(reason, REMEDY, details=details, curves=curves)
    return passed(details=details, curves=curves)


@stack_check("timm", "torchvision", called="deit_small", needs="gpu")
def stack_deit_small(ctx: Context, timm: Any) -> Outcome:
    """deit_small at 224 pixels learns an ImageFolder of two classes, in fp16 by autocast and GradScaler."""
    if ctx.quick:
        raise Skip("deit_small is trained without --quick")
    return train_on_files(ctx, timm)
