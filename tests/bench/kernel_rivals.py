"""What kernels are compared with: the same in plain torch, and FLA's kernels where they import."""

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from model import norm
from model.kda import delta_step, unit_length
from model.kda_chunk import chunked_delta_rule
from model.linear import rounded, wide
from model.norm import unit_rms
from model.quantized import mxfp4
from model.rope import rotate
from model.situ import situ, swiglu

Outputs = tuple[Tensor, ...]
Rival = Callable[..., Outputs]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Outputs:
    return (norm.rms_norm(x, weight, eps),)


def gated_rms_norm(read: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Outputs:
    return (norm.gated_rms_norm(read, gate, weight, eps),)


def short_convolution(x: Tensor, weight: Tensor, state: Tensor) -> Outputs:
    columns = torch.cat([state.mT, x], dim=1)
    width, lag = weight.shape
    total = F.conv1d(columns[:, 1:].mT, weight[:, None], groups=width)
    return F.silu(total).mT, columns[:, -lag:].mT


def kda(**given: Any) -> Outputs:
    q, k, v, state = (given[name] for name in ("q", "k", "v", "state"))
    scaled = unit_length(wide(q)) * q.shape[-1] ** -0.5
    z = wide(given["gate_logit"]) + wide(given["dt_bias"]).view(q.shape[-2:])
    rate, bound = wide(given["A_log"]).exp()[:, None], given["lower_bound"]
    log_decay = -rate * F.softplus(z) if bound is None else bound * torch.sigmoid(rate * z)
    beta = wide(given["beta_logit"]).sigmoid()
    terms = (scaled, unit_length(wide(k)), wide(v), log_decay, beta)
    if q.shape[1] == 1:
        step = delta_step(*terms, state[:, None])
        return rounded(step.read, v), step.state[:, 0]
    _, read, borders = chunked_delta_rule(*terms, state)
    return rounded(read, v), borders[:, -1]


def read_sources(
    residual: Tensor, bank: Tensor, norm_weight: Tensor, proj_weight: Tensor, eps: float
) -> Outputs:
    sources = torch.cat([bank, residual[..., None, :]], dim=-2)
    scores = unit_rms(wide(sources), eps) @ (wide(norm_weight) * wide(proj_weight))
    weights = torch.softmax(scores, dim=-1)
    return (rounded((weights[..., None] * wide(sources)).sum(-2), residual),)


def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, real: Tensor | None) -> Outputs:
    if real is None:
        return (F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale),)
    square = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device)
    seen = square.tril() & real[:, None, None, :]
    return (F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale),)


def read_latents(
    q: Tensor, latents: Tensor, shared: Tensor, scale: float, real: Tensor | None
) -> Outputs:
    scores = q @ torch.cat([latents, shared], dim=-1)[:, None].mT * scale
    if real is not None:
        scores = scores.masked_fill(~real[:, None, None, :], float("-inf"))
    pattern = torch.softmax(wide(scores), dim=-1).to(latents.dtype)
    return (pattern @ latents[:, None],)


def choose(logits: Tensor, bias: Tensor, top: int, groups: int, top_groups: int) -> Outputs:
    scores = logits.sigmoid()
    wanted = scores + bias
    if groups > 1:
        apart = wanted.unflatten(-1, (groups, -1))
        best = apart.topk(2, dim=-1).values.sum(-1).topk(top_groups, dim=-1).indices
        out = torch.ones_like(apart[..., 0], dtype=torch.bool).scatter(-1, best, False)
        wanted = apart.masked_fill(out[..., None], float("-inf")).flatten(-2)
    chosen = wanted.topk(top, dim=-1).indices
    weight = scores.gather(-1, chosen)
    # by expert, so that the order of two that weigh the same does not matter
    return (torch.zeros_like(scores).scatter(-1, chosen, weight / weight.sum(-1, keepdim=True)),)


def through_experts(
    z: Tensor,
    chosen: Tensor,
    w1: Tensor | Outputs,
    w2: Tensor | Outputs,
    w3: Tensor | Outputs,
    beta: float | None,
    linear_beta: float | None,
) -> Outputs:
    """Expert by expert, each unpacked when its turn comes."""
    act = swiglu if beta is None else partial(situ, beta=beta, linear_beta=linear_beta)

    def matrix(stack: Tensor | Outputs, expert: int) -> Tensor:
        one = stack[expert] if isinstance(stack, Tensor) else mxfp4(*(x[expert] for x in stack))
        return one.to(z.dtype)

    hidden = z.new_empty(*chosen.shape, (w1 if isinstance(w1, Tensor) else w1[0]).shape[1])
    out = z.new_empty(*chosen.shape, z.shape[1])
    for expert in chosen.unique().tolist():
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        x = z[token]
        h = act(x @ matrix(w1, expert).T, x @ matrix(w3, expert).T)
        hidden[token, choice], out[token, choice] = h, h @ matrix(w2, expert).T
    return hidden, out


TORCH: dict[str, Rival] = {
    "rms_norm": rms_norm,
    "gated_rms_norm": gated_rms_norm,
    "short_convolution": short_convolution,
    "kda_step": kda,
    "kda_prefill": kda,
    "chunked_delta_rule": lambda **terms: tuple(chunked_delta_rule(**terms)),
    "read_sources": read_sources,
    "attend": attend,
    "read_latents": read_latents,
    "rotate": lambda **given: (rotate(**given),),
    "choose": choose,
    "through_experts": through_experts,
    "situ": lambda gate, up: (situ(gate, up, 4.0, 25.0),),
    "swiglu": lambda gate, up: (swiglu(gate, up),),
}
"""By the launcher's name, with its arguments."""

PACKAGES = Path(sys.prefix) / "oracles"


def fla() -> dict[str, Rival]:
    """Those of FLA, by the launcher's name; none where it cannot be imported."""
    sys.path.append(str(PACKAGES))
    try:
        ops = importlib.import_module("fla.ops.kda")
    except (ImportError, RuntimeError):
        return {}
    finally:
        sys.path.remove(str(PACKAGES))
    return {
        "kda_prefill": partial(through_fla, ops.chunk_kda, safe_gate=True),
        "kda_step": partial(through_fla, ops.fused_recurrent_kda),
    }


def through_fla(run: Callable[..., Any], safe_gate: bool = False, **given: Any) -> Outputs:
    bound = given["lower_bound"]
    options: dict[str, Any] = {"safe_gate": True} if safe_gate and bound is not None else {}
    return run(
        q=given["q"],
        k=given["k"],
        v=given["v"],
        g=given["gate_logit"],
        beta=given["beta_logit"],
        A_log=given["A_log"],
        dt_bias=given["dt_bias"],
        initial_state=given["state"],
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        lower_bound=bound,
        state_v_first=True,
        **options,
    )
