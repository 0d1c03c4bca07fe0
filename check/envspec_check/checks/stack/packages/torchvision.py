"""stack.torchvision: its own operators, and the reading of images."""

from __future__ import annotations

from typing import Any

from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed

REMEDY = "lock the torchvision that was made for this torch, from the same index"

OVER = [[0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [0, 0, 5, 10], [21, 20, 30, 30]]
"""Boxes, by falling score: the second lies on the first by 0.81 of both, the last on the third by 0.9."""


@stack_check("torchvision", "torchvision.ops", "torchvision.io")
def stack_torchvision(ctx: Context, vision: Any) -> Outcome:
    """nms and roi_align give what they must, and images come out of PNG and JPEG as they went in."""
    torch = ctx.torch
    boxes = torch.tensor(OVER, dtype=torch.float32, device=ctx.torch_device)
    scores = torch.linspace(1, 0.5, len(OVER), device=ctx.torch_device)
    retained = vision.ops.nms(boxes, scores, 0.7).tolist()
    if retained != [0, 2, 3]:
        return failed(f"nms keeps the boxes {retained}, and should keep [0, 2, 3]", REMEDY)
    # The mean of a ramp over a box is its value in the middle.
    ramp = torch.arange(16.0, device=ctx.torch_device).repeat(16, 1)[None, None]
    box = torch.tensor([[0.0, 4, 4, 8, 8]], device=ctx.torch_device)
    pooled = vision.ops.roi_align(ramp, box, 1, aligned=True).item()
    if abs(pooled - 5.5) > 1e-3:
        return failed(f"roi_align gives {pooled:g} where the mean is 5.5", REMEDY)
    image = (torch.arange(3 * 24 * 32) % 251).to(torch.uint8).reshape(3, 24, 32)
    if not torch.equal(vision.io.decode_png(vision.io.encode_png(image)), image):
        return failed("an image comes out of PNG changed", REMEDY)
    smooth = torch.linspace(30, 220, 32).repeat(3, 24, 1).to(torch.uint8)
    wrong = (vision.io.decode_jpeg(vision.io.encode_jpeg(smooth, 95)).int() - smooth.int()).abs().max()
    if int(wrong) > 8:
        return failed("an image comes out of JPEG changed by %d of 255" % int(wrong), REMEDY)
    return passed(details={"torchvision": vision.__version__})
