"""stack.torchaudio: its own operators."""

from __future__ import annotations

import math
from typing import Any

from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed, passed

REMEDY = "lock the torchaudio that was made for this torch, from the same index"


@stack_check("torchaudio", "torchaudio.functional", "torchaudio.transforms")
def stack_torchaudio(ctx: Context, audio: Any) -> Outcome:
    """A filter gives what its recursion gives, a spectrogram has a tone where it is, and so has what is resampled."""
    torch = ctx.torch
    device = ctx.torch_device
    torch.manual_seed(ctx.seed)
    wave = torch.rand(1, 64) - 0.5
    ahead, back = [0.5, 0.25], [1.0, -0.3]
    exact, last = [], 0.0
    for at, value in enumerate(wave[0].tolist()):
        before = wave[0, at - 1].item() if at else 0.0
        last = ahead[0] * value + ahead[1] * before - back[1] * last
        exact.append(last)
    weights = [torch.tensor(coefficients, device=device) for coefficients in (back, ahead)]
    filtered = audio.functional.lfilter(wave.to(device), *weights, clamp=False)
    error = float((filtered.cpu().double() - torch.tensor([exact], dtype=torch.float64)).abs().max())
    if not error <= 1e-5:
        return failed(f"lfilter differs from its own recursion by {error:.2g}", REMEDY)
    tone = torch.sin(2 * math.pi * 1000 * torch.arange(8000) / 8000)[None].to(device)
    spectrum = audio.transforms.Spectrogram(n_fft=400).to(device)(tone).mean(-1)
    if int(spectrum.argmax()) != 50:
        return failed("a spectrogram has a tone of 1000 Hz at %d Hz" % (20 * int(spectrum.argmax())), REMEDY)
    half = audio.transforms.Spectrogram(n_fft=400).to(device)(audio.functional.resample(tone, 8000, 4000)).mean(-1)
    if int(half.argmax()) != 100:
        return failed("a resampled tone of 1000 Hz is at %d Hz" % (10 * int(half.argmax())), REMEDY)
    return passed(details={"torchaudio": audio.__version__})
