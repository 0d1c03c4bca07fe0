"""stack.diffusers: a tiny U-Net learns to take noise away."""

from __future__ import annotations

from typing import Any, Callable

from envspec_check.checks.stack.beside_float64 import REMEDY, beside_float64
from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed


@stack_check("diffusers")
def stack_diffusers(ctx: Context, diffusers: Any) -> Outcome:
    """A U-Net of two blocks trains as in float64, and a scheduler takes a step back."""
    torch = ctx.torch
    torch.manual_seed(ctx.seed)
    model = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
        attention_head_dim=4,
    )
    scheduler = diffusers.DDPMScheduler(num_train_timesteps=10)
    images, noise, times = torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8, 8), torch.tensor([2, 7])
    noisy = scheduler.add_noise(images, noise, times)

    def loss_of(network: Any, put: Callable[[Any], Any]) -> Any:
        return (network(put(noisy), put(times)).sample - put(noise)).square().mean()

    errors = beside_float64(ctx, "diffusers", model, loss_of)
    share = float(scheduler.alphas_cumprod[2])
    exact = share**0.5 * images[0].double() + (1 - share) ** 0.5 * noise[0].double()
    if not torch.allclose(noisy[0].double(), exact, atol=1e-5):
        return failed("a scheduler of diffusers adds another share of noise than it says", REMEDY)
    before = scheduler.step(noise[:1], 2, noisy[:1]).prev_sample
    if before.shape != noisy[:1].shape or not bool(torch.isfinite(before).all()):
        return failed("a scheduler of diffusers takes no step back", REMEDY)
    return passed(details={"diffusers": diffusers.__version__, "errors": errors})
