"""Random packed checkpoints in upstream's layout, and what each weight means by its format."""

import json
import math

import torch
from safetensors.torch import save_file

from model.load import build, upstream_state

EXPERTS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
E4M3 = torch.float8_e4m3fn


def e2m1(code):
    sign, exponent, mantissa = code >> 3, code >> 1 & 3, code & 1
    size = mantissa / 2 if exponent == 0 else 2 ** (exponent - 1) * (1 + mantissa / 2)
    return -size if sign else size


def e4m3(byte):
    sign, exponent, mantissa = byte >> 7, byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    size = mantissa / 8 * 2**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -size if sign else size


def random_mxfp4(shape, generator):
    """Packed codes, scales, and the float32 matrix that they stand for, value by value."""
    rows, columns = shape
    packed = torch.randint(256, (rows, columns // 2), generator=generator, dtype=torch.uint8)
    scales = torch.randint(118, 126, (rows, columns // 32), generator=generator).byte()
    values = [
        [
            e2m1(code) * 2.0 ** (int(scales[i, j // 16]) - 127)
            for j, byte in enumerate(row)
            for code in (byte & 15, byte >> 4)
        ]
        for i, row in enumerate(packed.tolist())
    ]
    return packed, scales, torch.tensor(values)


def random_fp8(shape, generator):
    """Codes, one scale for each block of 128 × 128, and the float32 matrix they stand for."""
    rows, columns = shape
    # exponent 15 with mantissa 7 is no number
    codes = torch.randint(0x7F, shape, generator=generator, dtype=torch.uint8)
    codes |= torch.randint(2, shape, generator=generator, dtype=torch.uint8) << 7
    blocks = -(-rows // 128), -(-columns // 128)
    scales = (torch.rand(blocks, generator=generator) + 0.5) / 1000
    values = torch.tensor([[e4m3(byte) for byte in row] for row in codes.tolist()])
    for i in range(0, rows, 128):
        for j in range(0, columns, 128):
            values[i : i + 128, j : j + 128] *= scales[i // 128, j // 128]
    return codes.view(E4M3), scales, values


def k3_mxfp4(config, seed=0):
    """A K3 as released: routed experts packed, every name with its prefix, vision beside it."""
    generator = torch.Generator().manual_seed(seed)
    stored, meant = {}, {}
    for name, tensor in plain_state(config, seed).items():
        prefixed = f"language_model.{name}"
        if ".experts." in name:
            packed, scale, meant[name] = random_mxfp4(tensor.shape, generator)
            stored |= {f"{prefixed}_packed": packed, f"{prefixed}_scale": scale}
            continue
        meant[name] = tensor
        stored[prefixed] = padded(tensor) if name.endswith("A_log") else tensor
    stored["vision_tower.patch_embed.proj.weight"] = torch.ones(4, 3, 2, 2)
    stored["vision_tower.encoder.blocks.0.wqkv.weight"] = torch.ones(6, 4)
    stored["mm_projector.proj.0.weight"] = torch.ones(4, 4)
    return stored, meant


def k2_fp8(config, seed=0):
    """A K2 as released: every projection in blocks, in K2's words, a layer of prediction behind."""
    generator = torch.Generator().manual_seed(seed)
    stored, meant = {}, {}
    for name, tensor in plain_state(config, seed).items():
        theirs = in_k2_words(name)
        if "_proj" in theirs:
            codes, scale, meant[name] = random_fp8(tensor.shape, generator)
            stored |= {theirs: codes, f"{theirs}_scale_inv": scale}
        else:
            stored[theirs] = meant[name] = tensor
    last = config.num_hidden_layers
    stored[f"model.layers.{last}.eh_proj.weight"] = torch.ones(4, 8)
    stored[f"model.layers.{last}.mlp.gate.weight"] = torch.ones(4, 4)
    stored["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    return stored, meant


def in_k2_words(name):
    name = name.replace(".block_sparse_moe.", ".mlp.")
    for ours, theirs in EXPERTS.items():
        name = name.replace(f".{ours}.", f".{theirs}.")
    return name


def plain_state(config, seed=0):
    """Random weights as the checkpoint stores them, in bfloat16 but for a few."""
    state = upstream_state(build(config, seed=seed, dtype="bfloat16"))
    return {name: tensor.clone() for name, tensor in state.items()}


def padded(a_log):
    """As K3 stores its rates: zeros up to a round number."""
    return torch.cat([a_log, a_log.new_zeros(-len(a_log) % 4 + 4)])


def write(folder, config, tensors, shards=1):
    """`config.json` and one file, or several with an index over them."""
    (folder / "config.json").write_text(json.dumps({"text_config": config.to_hf()}))
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    names, where = sorted(tensors), {}
    for n in range(shards):
        file = f"model-{n + 1:05}-of-{shards:06}.safetensors"
        part = names[n::shards]
        save_file({name: tensors[name] for name in part}, folder / file)
        where |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
