"""operators.by_hand: torch's layers and losses beside answers that no other torch operator gave.

float64 of the same torch shares the faults that all types have. Here the answers are written out by the formulas of
torch's documentation, in Python's own floats; for attention in sums, products and exponentials of float64.
"""

from __future__ import annotations

import copy
import functools
import importlib
import math
from typing import Any, Iterator, List, Sequence, Tuple

from envspec_check.checks.operators import TOLERANCES, dtype_of, farthest, where_it_is
from envspec_check.checks.tensors import of_algebra, of_casts, of_places, promises_of_autograd
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed, some
from envspec_check.trainer import exact_fp32, lacks

Case = Tuple[str, Any, Any]
"""A name, what torch gives, and what it should give: a tensor or nested lists."""

Draw = Tuple[str, Any, float, float]
"""A name, a number of many that were drawn, what it should be, and how far it may be off."""

LIMIT = 1e-4
"""How far an answer in float32 may be off, as a share of the largest value."""

ONE, TWO = (0.3, -1.2, 2.1, 0.8), (0.5, -1.0, 0.4, 0.9)

SIGNS, SHARES, BITS = (1, -1, 1, -1), (0.1, 0.7, 0.6, 0.95), (0, 1, 1, 0)

LOGITS = ((0.2, -1.0, 1.5, 0.3), (2.0, 0.1, -0.4, 0.6), (-0.3, 0.9, 0.5, -1.1))

CLASSES = (2, 1, 3)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def losses(nn: Any, torch: Any, device: str) -> Iterator[Tuple[Any, Sequence[Any], float]]:
    """Yield losses, each with its inputs and its right value."""
    log, exp = math.log, math.exp
    pairs = list(zip(ONE, TWO))
    yield nn.L1Loss(), (ONE, TWO), mean([abs(a - b) for a, b in pairs])
    yield nn.MSELoss(), (ONE, TWO), mean([(a - b) ** 2 for a, b in pairs])
    yield nn.MSELoss(reduction="sum"), (ONE, TWO), sum((a - b) ** 2 for a, b in pairs)
    far = [abs(a - b) for a, b in pairs]
    yield nn.SmoothL1Loss(beta=0.5), (ONE, TWO), mean([d * d if d < 0.5 else d - 0.25 for d in far])
    yield nn.HuberLoss(delta=0.5), (ONE, TWO), mean([d * d / 2 if d < 0.5 else 0.5 * (d - 0.25) for d in far])
    bits = [log(p) if b else log(1 - p) for p, b in zip(SHARES, BITS)]
    yield nn.BCELoss(), (SHARES, BITS), -mean(bits)
    likely = [3 * log(sigmoid(x)) if b else log(1 - sigmoid(x)) for x, b in zip(ONE, BITS)]
    yield nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0, device=device)), (ONE, BITS), -mean(likely)
    yield nn.BCEWithLogitsLoss(reduction="sum", pos_weight=torch.tensor(3.0)), (ONE, BITS), -sum(likely)
    yield nn.KLDivLoss(reduction="sum"), (ONE, SHARES), sum(p * (log(p) - x) for x, p in zip(ONE, SHARES))
    right = sum(exp(y) * (y - x) for x, y in pairs)
    yield nn.KLDivLoss(reduction="sum", log_target=True), (ONE, TWO), right
    yield nn.PoissonNLLLoss(), (ONE, SHARES), mean([exp(x) - y * x for x, y in zip(ONE, SHARES)])
    spread = [0.5 * (log(v) + (a - b) ** 2 / v) for (a, b), v in zip(pairs, SHARES)]
    yield nn.GaussianNLLLoss(), (ONE, TWO, SHARES), mean(spread)
    yield nn.SoftMarginLoss(), (ONE, SIGNS), mean([log(1 + exp(-s * x)) for x, s in zip(ONE, SIGNS)])
    hinges = [x if s > 0 else max(0.0, 1.5 - x) for x, s in zip(ONE, SIGNS)]
    yield nn.HingeEmbeddingLoss(margin=1.5), (ONE, SIGNS), mean(hinges)
    margins = [max(0.0, 0.5 - s * (a - b)) for (a, b), s in zip(pairs, SIGNS)]
    yield nn.MarginRankingLoss(margin=0.5), (ONE, TWO, SIGNS), mean(margins)
    cosine = sum(a * b for a, b in pairs) / math.sqrt(sum(a * a for a in ONE) * sum(b * b for b in TWO))
    yield nn.CosineEmbeddingLoss(margin=0.1), ([ONE], [TWO], [-1]), max(0.0, cosine - 0.1)
    apart = [math.sqrt(sum((a - b) ** 2 for a, b in zip(ONE, other))) for other in (TWO, SHARES)]
    yield nn.TripletMarginLoss(margin=2.0), ([ONE], [TWO], [SHARES]), max(0.0, apart[0] - apart[1] + 2.0)
    far = [sum(abs(a - b) for a, b in zip(ONE, other)) for other in (TWO, SHARES)]
    loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: (a - b).abs().sum(-1), margin=2.0)
    yield loss, ([ONE], [TWO], [SHARES]), max(0.0, far[0] - far[1] + 2.0)
    first, at = LOGITS[1], CLASSES[1]
    excesses = [max(0.0, 1 - first[at] + x) for x in (*first[:at], *first[at + 1 :])]
    yield nn.MultiMarginLoss(), ([first], [at]), sum(excesses) / 4
    yield (
        nn.MultiLabelSoftMarginLoss(),
        ([ONE], [BITS]),
        -mean([log(sigmoid(x)) if b else log(1 - sigmoid(x)) for x, b in zip(ONE, BITS)]),
    )
    rows = [[log(exp(x) / sum(map(exp, row))) for x in row] for row in LOGITS]
    chosen = [row[at] for row, at in zip(rows, CLASSES)]
    weights = (0.5, 2.0, 1.0, 3.0)
    heavy = torch.tensor(weights, device=device)
    total = sum(weights[at] for at in CLASSES)
    yield nn.CrossEntropyLoss(), (LOGITS, CLASSES), -mean(chosen)
    weighted = -sum(weights[at] * logprob for logprob, at in zip(chosen, CLASSES))
    yield nn.CrossEntropyLoss(weight=heavy), (LOGITS, CLASSES), weighted / total
    yield nn.NLLLoss(weight=heavy), (rows, CLASSES), weighted / total
    yield nn.CrossEntropyLoss(ignore_index=1), (LOGITS, CLASSES), -mean([chosen[0], chosen[2]])
    yield nn.CrossEntropyLoss(), (LOGITS, (2, -100, 3)), -mean([chosen[0], chosen[2]])
    yield nn.CrossEntropyLoss(ignore_index=1, reduction="sum"), (LOGITS, CLASSES), -(chosen[0] + chosen[2])
    smooth = -mean([0.9 * logprob + 0.1 * mean(row) for logprob, row in zip(chosen, rows)])
    yield nn.CrossEntropyLoss(label_smoothing=0.1), (LOGITS, CLASSES), smooth
    soft = [[0.1, 0.2, 0.3, 0.4]] * 3
    yield nn.CrossEntropyLoss(), (LOGITS, soft), -mean([sum(p * x for p, x in zip(soft[0], row)) for row in rows])


def of_losses(torch: Any, device: str) -> Iterator[Case]:
    for layer, given, right in losses(torch.nn, torch, device):
        whole = (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss, torch.nn.MultiMarginLoss)
        tensors = [torch.tensor(values, device=device) for values in given]
        if not isinstance(layer, whole):
            tensors = [tensor.float() for tensor in tensors]
        yield f"{layer} of {layer.reduction}", layer.to(device)(*tensors), right
    # two steps for one label: it twice, before or after a blank
    logs = torch.tensor([[[0.6, 0.4]], [[0.7, 0.3]]], device=device).log()
    lengths = (torch.tensor([2]), torch.tensor([1]))
    paths = 0.4 * 0.3 + 0.6 * 0.3 + 0.4 * 0.7
    yield (
        "CTCLoss",
        torch.nn.CTCLoss(reduction="sum")(logs, torch.tensor([[1]], device=device), *lengths),
        -math.log(paths),
    )
    if hasattr(torch.nn, "LinearCrossEntropyLoss"):
        layer = torch.nn.LinearCrossEntropyLoss(2, 4).to(device)
        with torch.no_grad():
            layer.linear.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
        rows = [(0.3, -0.4), (1.0, 0.5)]
        wide = [[a, b, a + b, 0.0] for a, b in rows]
        right = mean([math.log(sum(map(math.exp, row))) - row[2] for row in wide])
        loss = layer(torch.tensor(rows, device=device), torch.tensor([2, 2], device=device))
        yield "LinearCrossEntropyLoss", loss, right


def of_vocabularies(torch: Any, device: str) -> Iterator[Case]:
    """Cross-entropy of many classes, and embeddings of many rows."""
    F = torch.nn.functional
    for classes in (9000, 50257, 131072):
        given = torch.zeros(3, classes, device=device)
        given[:, -2] = 9.0
        given.requires_grad_()
        loss = F.cross_entropy(given, torch.tensor([classes - 2, -100, 5], device=device))
        loss.backward()
        total = classes - 1 + math.exp(9.0)
        yield f"cross-entropy of {classes} classes", loss, math.log(total) - 4.5
        right = [[(math.exp(9.0) / total - 1) / 2, 0.5 / total], [0.0, 0.0], [math.exp(9.0) / total / 2, 0.5 / total]]
        yield f"the gradient of cross-entropy of {classes} classes", given.grad[:, -2:], right
        weights = torch.arange(classes, dtype=torch.float32, device=device).unsqueeze(1).requires_grad_()
        rows = [0, 7, classes - 1, 7, 3]
        embedded = F.embedding(torch.tensor(rows, device=device), weights, padding_idx=3)
        yield f"embeddings of {classes} rows", embedded, [[float(row)] for row in rows]
        embedded.sum().backward()
        yield "the gradient of padding_idx and its neighbours", weights.grad[[0, 3, 7]], [[1.0], [0.0], [2.0]]


def index_at(index: int, size: int, mode: str) -> int:
    """Return the value at an index, or -1 outside."""
    if 0 <= index < size or mode == "zeros":
        return index if 0 <= index < size else -1
    if mode == "circular":
        return index % size
    return min(max(index, 0), size - 1) if mode == "replicate" else (-index if index < 0 else 2 * size - 2 - index)


def convolution(given: Any, weights: Any, mode: str) -> List[List[List[float]]]:
    """Return a convolution of two groups, with strides (2, 1), padding (1, 2) and dilation (1, 2), in loops."""
    channels, high, wide = len(given), len(given[0]), len(given[0][0])
    outs, per = len(weights), len(weights[0])
    tall, broad = len(weights[0][0]), len(weights[0][0][0])
    result = []
    for out in range(outs):
        first = (out * 2 // outs) * (channels // 2)
        plane = []
        for y in range((high + 2 - tall) // 2 + 1):
            row = []
            for x in range(wide + 4 - 2 * (broad - 1)):
                total = 0.0
                for channel in range(per):
                    for j in range(tall):
                        for i in range(broad):
                            at = index_at(2 * y - 1 + j, high, mode), index_at(x - 2 + 2 * i, wide, mode)
                            if min(at) >= 0:
                                total += weights[out][channel][j][i] * given[first + channel][at[0]][at[1]]
                row.append(total)
            plane.append(row)
        result.append(plane)
    return result


def of_convolutions(torch: Any, device: str) -> Iterator[Case]:
    nn, drawn = torch.nn, torch.Generator().manual_seed(5)
    given, weights = torch.randn(4, 5, 6, generator=drawn), torch.randn(6, 2, 3, 2, generator=drawn)
    options = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2, "bias": False}
    for mode in ("zeros", "reflect", "replicate", "circular"):
        layer = nn.Conv2d(4, 6, (3, 2), padding_mode=mode, **options).to(device)
        with torch.no_grad():
            layer.weight.copy_(weights)
        result = layer(given.to(device).unsqueeze(0))[0]
        yield f"Conv2d with {mode}", result, convolution(given.tolist(), weights.tolist(), mode)
    # A transposed one is that by which <conv(x), y> is <x, transposed(y)>.
    back = nn.ConvTranspose2d(6, 4, (3, 2), **options).to(device)
    plain = torch.tensor(convolution(given.tolist(), weights.tolist(), "zeros"), dtype=torch.float64)
    other = torch.randn(plain.shape, generator=drawn)
    with torch.no_grad():
        back.weight.copy_(weights)
    turned = back(other.to(device).unsqueeze(0))[0].detach().cpu().double()
    yield "ConvTranspose2d", (turned * given).sum(), float((plain * other).sum())
    line = torch.arange(1.0, 7.0, device=device).reshape(1, 1, 6)
    layer = nn.Conv1d(1, 1, 2, padding="same", dilation=2).to(device)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[1.0, 10.0]]]))
        layer.bias.fill_(0.5)
    yield "Conv1d", layer(line), [[[20.5, 31.5, 42.5, 53.5, 64.5, 5.5]]]
    linear = nn.Linear(2, 3).to(device)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        linear.bias.copy_(torch.tensor([0.5, -0.5, 0.25]))
    yield "Linear", linear(torch.tensor([[10.0, 100.0]], device=device)), [[210.5, 429.5, 650.25]]


def of_batches(torch: Any, device: str) -> Iterator[Case]:
    """Yield a gradient for each sample, by vmap."""
    if hasattr(torch, "func"):
        weights = torch.tensor([0.5, -2.0, 1.5, 0.1], device=device)
        given = torch.tensor(LOGITS, device=device)
        gradients = torch.func.vmap(torch.func.grad(lambda w, x: (w @ x) ** 2), in_dims=(None, 0))(weights, given)
        dots = [sum(w * x for w, x in zip((0.5, -2.0, 1.5, 0.1), row)) for row in LOGITS]
        yield "vmap of gradients", gradients, [[2 * dot * x for x in row] for dot, row in zip(dots, LOGITS)]


def attention_of(torch: Any, query: Any, key: Any, value: Any, mask: Any, scale: float) -> Any:
    """Attention in float64, written out. `mask` is added."""
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.double().cpu().repeat_interleave(groups, dim=1) for tensor in (key, value))
    scores = query.double().cpu() @ key.transpose(-1, -2) * scale
    scores = scores if mask is None else scores + mask.double().cpu()
    weights = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return weights @ value / weights.sum(dim=-1, keepdim=True)


def attention_cases(ctx: Context, dtype: Any) -> Iterator[Case]:
    """Masks, shared keys, a scale of one's own, long sequences, and the gradients."""
    torch, device = ctx.torch, ctx.device
    attend = torch.nn.functional.scaled_dot_product_attention
    drawn = torch.Generator().manual_seed(ctx.seed)

    def make(*shape: int) -> Any:
        return torch.randn(*shape, generator=drawn).to(device, dtype)

    for short, long, causal in ((48, 48, False), (32, 1040, False), (1040, 1040, True)):
        query, key, value, weights = (
            make(1, 2, short, 16),
            make(1, 2, long, 16),
            make(1, 2, long, 16),
            make(1, 2, short, 16),
        )
        added, later = make(short, long), torch.full((short, long), -math.inf).triu(1)
        padded = torch.zeros(short, long, dtype=torch.bool, device=device)
        padded[:, : long // 3] = True
        masks = {
            "no mask": (None, None),
            "an added mask": (added, added),
            "padding": (padded, torch.where(padded.cpu(), 0.0, -math.inf)),
        }
        for word, (mask, summed) in ({"a causal mask": (None, later)} if causal else masks).items():
            own = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
            right = [tensor.detach().double().cpu().requires_grad_() for tensor in own]
            result, exact = attend(*own, attn_mask=mask, is_causal=causal), attention_of(torch, *right, summed, 0.25)
            result.backward(weights)
            exact.backward(weights.double().cpu())
            name = f"attention of {short} to {long} with {word}"
            yield name, result, exact.detach()
            for what, tensor, other in zip(("queries", "keys", "values"), own, right):
                yield f"the gradient of {what} of {name}", tensor.grad, other.grad
        shared = key[:, :1], value[:, :1]
        try:
            result = attend(query, *shared, scale=0.4, enable_gqa=True, is_causal=causal)
        except TypeError:  # torch before 2.5 has no enable_gqa
            continue
        exact = attention_of(torch, query, *shared, later if causal else None, 0.4)
        yield f"attention of {short} to {long} with shared keys", result, exact


def of_multi_head(torch: Any, device: str) -> Iterator[Case]:
    """MultiheadAttention and an encoder's layer with padding, beside themselves without what is padded."""
    nn = torch.nn
    torch.manual_seed(3)
    heads = nn.MultiheadAttention(8, 2, batch_first=True).to(device)
    given = torch.randn(2, 6, 8).to(device)
    padded = torch.zeros(2, 6, dtype=torch.bool, device=device)
    padded[:, 4:] = True
    result, shares = heads(given, given, given, key_padding_mask=padded)
    query, key, value = (
        part.detach().reshape(2, -1, 2, 4).transpose(1, 2)
        for part in (given @ heads.in_proj_weight.T + heads.in_proj_bias).chunk(3, dim=-1)
    )
    right = attention_of(torch, query, key[:, :, :4], value[:, :, :4], None, 0.5).transpose(1, 2).reshape(2, 6, 8)
    out = heads.out_proj
    right = right @ out.weight.detach().double().cpu().T + out.bias.detach().double().cpu()
    yield "MultiheadAttention with padding", result, right
    yield "the shares of what is padded", shares[..., 4:], [[[0.0, 0.0]] * 6] * 2
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).to(device)
    slow = layer(given[:, :4])
    with torch.no_grad():  # one that is only used takes another path
        fast = layer.eval()(given, src_key_padding_mask=padded)
    yield "TransformerEncoderLayer in use", fast[:, :4], slow.detach().double().cpu()


def draws(torch: Any, device: str) -> Iterator[Draw]:
    """Yield statistics of many random numbers. Six times the spread of a sound generator is allowed, which a sound
    one exceeds once in 500 million."""
    nn, many = torch.nn, 1 << 18
    allowed = 6 / math.sqrt(many)
    torch.manual_seed(11)
    ones = torch.ones(many, device=device)
    for p in (0.1, 0.5):
        layer = nn.Dropout(p)
        left = layer(ones)
        yield f"what Dropout({p}) drops", (left == 0).double().mean(), p, allowed * math.sqrt(p * (1 - p))
        yield f"what Dropout({p}) leaves", left.max(), 1 / (1 - p), 1e-5
        yield f"Dropout({p}) in use", layer.eval()(ones).min(), 1.0, 0.0
    for wide in (1, 2, 3):
        layer = getattr(nn, f"Dropout{wide}d")(0.3)
        planes = layer(torch.ones(many // 16, 1, *[4] * wide, device=device)).flatten(1).sum(1)
        yield f"what Dropout{wide}d drops", (planes == 0).double().mean(), 0.3, 4 * allowed * math.sqrt(0.21)
        yield f"what Dropout{wide}d leaves", planes.max(), 4**wide / 0.7, 1e-3
    for kind in ("AlphaDropout", "FeatureAlphaDropout"):
        left = getattr(nn, kind)(0.5)(ones.reshape(-1, 4, 4))
        yield f"what {kind} drops", (left < 0).double().mean(), 0.5, allowed
    for kind, wide in (("Dropout1d", 1), ("Dropout2d", 2), ("Dropout3d", 3), ("AlphaDropout", 1),
                       ("FeatureAlphaDropout", 1)):  # fmt: skip
        yield f"{kind} in use", getattr(nn, kind)(0.5).eval()(ones[:4096].reshape(-1, 4, *[4] * wide)).std(), 0.0, 0.0
    same, rows = torch.zeros(1, 1, 512, 16, device=device), torch.eye(512, device=device).reshape(1, 1, 512, 512)
    dropped = 512 * nn.functional.scaled_dot_product_attention(same, same, rows, dropout_p=0.2)
    yield "what attention drops", (dropped == 0).double().mean(), 0.2, 0.4 * allowed
    yield "what attention leaves", dropped.max(), 1 / 0.8, 1e-4
    heads, value = nn.MultiheadAttention(1, 1, dropout=0.2, bias=False, batch_first=True).to(device), ones[: 1 << 14]
    _, shares = heads(*[value.reshape(1 << 6, 1 << 8, 1)] * 3)
    yield "what MultiheadAttention drops", (shares == 0).double().mean(), 0.2, 0.4 * 6 / math.sqrt(1 << 22)
    yield "MultiheadAttention in use", heads.eval()(*[value.reshape(1 << 6, 1 << 8, 1)] * 3)[1].std(), 0.0, 1e-6
    spread = nn.RReLU(0.1, 0.5)(-ones)
    yield "the mean of RReLU", -spread.double().mean(), 0.3, 0.12 * allowed
    yield "the spread of RReLU", spread.double().std(), 0.4 / math.sqrt(12), 0.1 * allowed
    zeros, soft = torch.zeros(2, many, device=device), nn.functional.gumbel_softmax
    yield "the sums of gumbel_softmax", soft(zeros, dim=0).sum(0).max(), 1.0, 1e-5
    yield "gumbel_softmax of a high temperature", soft(zeros, tau=1000.0, dim=0).max(), 0.5, 0.1
    yield "a hard gumbel_softmax", soft(zeros, hard=True, dim=0).max(0).values.min(), 1.0, 1e-5
    normal, even = torch.randn(many, device=device), torch.rand(many, device=device)
    yield "the mean of randn", normal.mean(), 0.0, allowed
    yield "the variance of randn", normal.double().var(), 1.0, allowed * math.sqrt(2)
    yield "the mean of rand", even.mean(), 0.5, allowed * math.sqrt(1 / 12)
    chosen = torch.multinomial(torch.tensor([1.0, 3.0], device=device), many, replacement=True)
    yield "the mean of multinomial", chosen.double().mean(), 0.75, allowed * math.sqrt(3 / 16)
    order = torch.randperm(many, device=device).sort().values
    yield "what randperm lacks", (order != torch.arange(many, device=device)).sum(), 0.0, 0.0
    for layer in (nn.Linear(1024, 256), nn.Conv2d(256, 256, 2)):
        kind, shares = type(layer).__name__, layer.weight.detach().double() * math.sqrt(1024)
        yield f"the spread of {kind}'s weights", shares.std(), 3**-0.5, allowed / 2
        yield f"the bound of {kind}'s weights", shares.abs().max(), 1.0, 1e-3
    yield "the spread of Embedding's weights", nn.Embedding(1024, 256).weight.double().std(), 1.0, allowed
    weights = torch.empty(256, 1024)
    init = nn.init
    for name, middle, spread, options in (
        ("normal_", 0.2, 0.3, {"mean": 0.2, "std": 0.3}),
        ("uniform_", 0.5, math.sqrt(0.75), {"a": -1.0, "b": 2.0}),
        ("trunc_normal_", 1.0, 1.07912, {"mean": 1.0, "std": 2.0, "a": -1.0, "b": 3.0}),
        ("xavier_normal_", 0.0, 3 / math.sqrt(640), {"gain": 3.0}),
        ("xavier_uniform_", 0.0, 3 / math.sqrt(640), {"gain": 3.0}),
        ("kaiming_normal_", 0.0, 1 / math.sqrt(128), {"mode": "fan_out"}),
        ("kaiming_normal_", 0.0, 5 / 96, {"nonlinearity": "tanh"}),
        ("kaiming_normal_", 0.0, 1 / math.sqrt(2560), {"a": 2.0}),
        ("kaiming_uniform_", 0.0, 1 / math.sqrt(640), {"a": 2.0, "mode": "fan_out"}),
        ("kaiming_uniform_", 0.0, 5 / 96, {"nonlinearity": "tanh"}),
    ):
        drawn, word = getattr(init, name)(weights, **options).double(), f"{name} with {options}"
        yield f"the spread of {word}", drawn.std() / spread, 1.0, allowed
        yield f"the mean of {word}", (drawn.mean() - middle) / spread, 0.0, allowed
    yield "the bound of trunc_normal_", init.trunc_normal_(weights, 0.0, 1.0, -0.5, 0.5).abs().max(), 0.5, 1e-3
    for name, total, largest in (("constant_", 50.4, 0.7), ("ones_", 72, 1), ("zeros_", 0, 0), ("dirac_", 6, 1)):
        options = {"constant_": {"val": 0.7}, "dirac_": {"groups": 2}}.get(name, {})
        filled = getattr(init, name)(torch.empty(6, 4, 3), **options)
        yield f"the sum of {name}", filled.sum(), total, 1e-4
        yield f"the largest of {name}", filled.max(), largest, 1e-6
    small = torch.empty(6, 4)
    yield "eye_", (init.eye_(small) - torch.eye(6, 4)).abs().max(), 0.0, 0.0
    turned = init.orthogonal_(small, gain=2.0)
    yield "orthogonal_(gain=2)", (turned.T @ turned - 4 * torch.eye(4)).abs().max(), 0.0, 1e-5
    sparse = init.sparse_(torch.empty(1024, 256), 0.75, std=0.1)
    yield "what sparse_ leaves out", (sparse == 0).double().mean(), 0.75, 0.0
    yield "the spread of sparse_", sparse[sparse != 0].double().std(), 0.1, 0.2 * allowed
    for name, total in (("kaiming_normal_", 1024), ("kaiming_uniform_", 1024), ("xavier_normal_", 1280),
                        ("xavier_uniform_", 1280)):  # fmt: skip
        spread = getattr(nn.init, name)(weights).double().std() * math.sqrt(total / 2)
        yield f"the spread of {name}", spread, 1.0, allowed


def promises(torch: Any) -> Iterator[Tuple[str, bool]]:
    """Yield the promises of modules on their parts, states, types and hooks, each with whether it holds."""
    nn, equal, ones = torch.nn, torch.equal, torch.ones(2, 2)
    model = nn.ModuleDict({"c": nn.Linear(2, 2), "a": nn.BatchNorm1d(2), "b": nn.Linear(2, 2)})
    first, norm, tied = model.values()
    tied.weight = first.weight
    del tied.bias
    norm.register_buffer("own", ones.clone(), persistent=False)
    saved = copy.deepcopy(model.state_dict())
    yield "parts keep their order", list(model.keys()) == ["c", "a", "b"] and [*model.children()] == [first, norm, tied]
    yield "a tied weight comes once, and a deleted one not at all", len(list(model.parameters())) == 4
    yield "a state has what is to be kept", len(saved) == 8 and "a.own" not in saved
    norm(first(ones))
    model.load_state_dict(saved)
    yield (
        "a state comes back, buffers too",
        all(equal(tensor, saved[name]) for name, tensor in model.state_dict().items()),
    )
    del saved["b.weight"]
    try:
        refused = bool(model.load_state_dict(saved)) and False
    except RuntimeError:
        refused = model.load_state_dict(saved, strict=False).missing_keys == ["b.weight"]
    yield "a state that lacks a name is refused", refused
    counts = model.double().to(torch.float32).a.num_batches_tracked.dtype, model.to(torch.float64).a.running_var.dtype
    yield "whole numbers stay so in another type", counts == (torch.int64, torch.float64)
    yield (
        "type() is for all of them",
        {buffer.dtype for buffer in model.type(torch.float16).buffers()} == {torch.float16},
    )
    model["c"] = norm
    yield "a part is replaced", model["c"] is norm and len(nn.ModuleList([first] * 5)) == 5
    model.clear()
    whole = nn.Transformer(2, 1, 1, 1, 2, custom_encoder=norm, custom_decoder=first)
    yield "parts of one's own are taken, and removed", (whole.encoder, whole.decoder, len(model)) == (norm, first, 0)
    held = torch.empty(2, 2)
    yield "what is asked for elsewhere is there", nn.functional.normalize(ones, out=held) is held
    yield "a first weight is what was asked for", float(nn.PReLU(init=0.5).weight.detach()) == 0.5
    called: List[int] = []
    layer, given = nn.Linear(2, 2, bias=False), ones.clone().requires_grad_()
    layer.register_load_state_dict_post_hook(lambda *_: called.append(1))
    layer.load_state_dict(layer.state_dict())
    hooks = (
        layer.register_forward_pre_hook(lambda _, given: (2 * given[0],)),
        layer.register_forward_hook(lambda _, given, result: 4 * result),
        layer.register_full_backward_hook(lambda _, into, out: (8 * into[0],)),
    )
    result = layer(given)
    result.sum().backward()
    slopes = 64 * layer.weight.sum(0).expand(2, 2)
    yield "hooks are called, and what they give is taken", called == [1] and torch.allclose(given.grad, slopes)
    yield "hooks of results are taken", torch.allclose(result, 8 * (ones @ layer.weight.T))
    for hook in hooks:
        hook.remove()
    yield "hooks are removed", torch.allclose(layer(ones), ones @ layer.weight.T)
    layer = nn.Linear(3, 3)
    layer.weight.data.copy_(torch.tensor([2.0, 1.9, 1.8]).diag())
    utils = nn.utils
    importlib.import_module("torch.nn.utils.parametrizations").spectral_norm(layer).eval()
    weight = layer.weight.detach().clone()
    yield "a norm in use stays as it is", equal(layer.weight, weight)
    importlib.import_module("torch.nn.utils.parametrize").remove_parametrizations(layer, "weight")
    yield "a parametrized weight stays when that ends", equal(layer.weight, weight)
    rows, lengths = [torch.arange(1.0, end) for end in (2.0, 4.0, 3.0)], torch.tensor([1, 3, 2])
    padded = utils.rnn.pad_sequence(rows, batch_first=True)
    packed = utils.rnn.pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    again = utils.rnn.pad_packed_sequence(packed, batch_first=True)
    yield "rows are packed and unpacked", equal(again[0], padded) and equal(again[1], lengths)
    yield "packed rows have a type", packed.long().data.dtype == torch.int64
    if hasattr(utils.rnn, "unpad_sequence"):
        yield "rows lose their padding", all(map(equal, rows, utils.rnn.unpad_sequence(padded, lengths, True)))


TABLES = of_losses, of_vocabularies, of_convolutions, of_batches, of_multi_head, of_places, of_algebra, of_casts


REMEDY = "something patches torch, or this torch is wrong on this machine: try another version, and report it"


def judge(ctx: Context, cases: Iterator[Case], limit: float) -> Outcome:
    wrong, count, worst = [], 0, 0.0
    for name, result, right in cases:
        off = farthest(ctx.torch, result, ctx.torch.as_tensor(right, dtype=ctx.torch.float64), 1e-3)
        count, worst = count + 1, max(worst, off)
        if not off <= limit:
            wrong.append("%s is off by %.2g of its largest value" % (name, off))
    details = {"answers": count, "error": worst, "limit": limit, "wrong": wrong}
    return failed(some(wrong, 3), REMEDY, details=details) if wrong else passed(details=details)


@check("operators.by_hand")
def operators_by_hand(ctx: Context) -> Outcome:
    """Layers and losses give what their formulas give in Python's own numbers, and modules keep their promises."""
    exact_fp32(ctx.torch)
    every = (*promises(ctx.torch), *promises_of_autograd(ctx.torch))
    broken = [name for name, holds in every if not holds]
    if broken:
        return failed(f"this isn't so: {some(broken)}", REMEDY, details={"wrong": broken})
    return judge(ctx, (case for table in TABLES for case in table(ctx.torch, ctx.device)), LIMIT)


def attention_by_hand(ctx: Context, precision: str) -> Outcome:
    """Attention and its gradients are what sums and exponentials give: masks, shared keys, long sequences."""
    exact_fp32(ctx.torch)
    lacking = lacks("cuda", precision) if ctx.device == "cuda" else None
    if lacking:
        raise Skip(lacking)
    with where_it_is(ctx, "attention", precision):
        return judge(ctx, attention_cases(ctx, dtype_of(ctx.torch, precision)), 2 * TOLERANCES[precision])


for _precision in TOLERANCES:
    check(f"operators.attention.{_precision}")(functools.partial(attention_by_hand, precision=_precision))


@check("operators.random")
def operators_random(ctx: Context) -> Outcome:
    """Random draws have their shares and spreads: dropout, first weights, orders."""
    wrong, count = [], 0
    for name, statistic, right, allowed in draws(ctx.torch, ctx.device):
        count, number = count + 1, float(statistic.detach())
        if not abs(number - right) <= allowed:
            wrong.append("%s: %.5g, and should be %.5g" % (name, number, right))
    details = {"draws": count, "wrong": wrong}
    return failed(some(wrong, 3), REMEDY, details=details) if wrong else passed(details=details)
