"""Whole training steps: build/llama beside the same model in PyTorch, eager and compiled. See docs/trainer.md.

    python bench/peers/trainer.py [--device cuda] [--preset 124m] [--type bf16] [--batch 32] [--seq 1024] [--rounds 3] ...

First `llama` saves its initial parameters, PyTorch's model loads them, and the two must find the same held-out loss. Then rounds of all
variants follow each other, each a process of its own; of Tigon its median step counts, of PyTorch the mean of all steps behind a third of
them, and of the rounds the median is printed.
bf16: `autocast` computes in bf16 from f32 parameters, as exact as Tigon's master weights; `bf16 parameters` has no master weights.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).parent.parent.parent
VARIANTS = {  # name: (types it is for, compiled, autocast)
    "eager, autocast": (("bf16",), False, True),
    "compiled, autocast": (("bf16",), True, True),
    "compiled, bf16 parameters": (("bf16",), True, False),
    "eager": (("f32",), False, False),
    "compiled": (("f32",), True, False),
}
# In the order in which they are fast on Hopper; what a card or processor lacks is passed over.
ATTENTION = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
HELD_OUT_WINDOWS = 4
LIMIT = {"f32": 1e-3, "bf16": 2e-2}  # on the difference of held-out losses
TOKEN_FILE = np.array([20240801, 7], np.int32)  # llm.c's, of uint32


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, ff, eps):
        super().__init__()
        self.heads, self.kv_heads, self.head, self.eps = heads, kv_heads, width // heads, eps
        kv = kv_heads * self.head
        self.norms = nn.ParameterList([torch.ones(width), torch.ones(width)])
        self.q, self.k, self.v, self.o = (nn.Linear(width, n, bias=False) for n in (width, kv, kv, width))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((width, ff), (width, ff), (ff, width)))

    def rotated(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def forward(self, x, cos, sin):
        y = F.rms_norm(x, x.shape[-1:], self.norms[0].to(x.dtype), self.eps)
        q, k, v = (f(y).unflatten(-1, (-1, self.head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.rotated(q, cos, sin), self.rotated(k, cos, sin), v, is_causal=True,
                                           enable_gqa=self.kv_heads != self.heads)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = F.rms_norm(x, x.shape[-1:], self.norms[1].to(x.dtype), self.eps)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Of a folder that `llama` has saved; its loss over tokens and targets."""

    def __init__(self, folder):
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        assert config["tie_word_embeddings"] and not config.get("rope_scaling"), "the presets are tied, without scaled frequencies"
        width, self.eps = config["hidden_size"], config["rms_norm_eps"]
        self.head, self.theta = width // config["num_attention_heads"], config["rope_theta"]
        self.embedding = nn.Parameter(torch.empty(config["vocab_size"], width))
        self.norm = nn.Parameter(torch.ones(width))
        self.blocks = nn.ModuleList(Block(width, config["num_attention_heads"], config["num_key_value_heads"],
                                          config["intermediate_size"], self.eps) for _ in range(config["num_hidden_layers"]))
        self.load(load_file(folder / "model.safetensors"))

    @torch.no_grad()
    def load(self, saved):
        names = {"model.embed_tokens.weight": self.embedding, "model.norm.weight": self.norm}
        for i, b in enumerate(self.blocks):
            at = f"model.layers.{i}."
            names |= {at + "input_layernorm.weight": b.norms[0], at + "post_attention_layernorm.weight": b.norms[1]}
            names |= {f"{at}self_attn.{n}_proj.weight": getattr(b, n).weight for n in "qkvo"}
            names |= {f"{at}mlp.{n}_proj.weight": getattr(b, n).weight for n in ("gate", "up", "down")}
        for name, parameter in names.items():
            parameter.copy_(saved[name])

    def turns(self, seq):
        """(cos, sin), made once: inside of what is compiled, Inductor would compute them again at each use."""
        half = torch.arange(self.head // 2, device=self.norm.device, dtype=torch.float32)
        angles = torch.outer(torch.arange(seq, device=half.device), self.theta ** (-half * 2 / self.head))
        return angles.cos(), angles.sin()

    def forward(self, tokens, target, cos, sin):
        x = F.embedding(tokens, self.embedding)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for block in self.blocks:
            x = block(x, cos, sin)
        x = F.rms_norm(x, x.shape[-1:], self.norm.to(x.dtype), self.eps)
        return F.cross_entropy(F.linear(x, self.embedding).flatten(0, 1).float(), target.flatten())


class Mixture(nn.Module):
    """The same of a mixture of experts: transformers' Qwen3-MoE."""

    def __init__(self, folder, experts):
        super().__init__()
        from transformers import Qwen3MoeForCausalLM
        self.model = Qwen3MoeForCausalLM.from_pretrained(folder, dtype=torch.float32, experts_implementation=experts, attn_implementation="sdpa")

    @staticmethod
    def turns(_):
        return ()

    def forward(self, tokens, target):
        logits = self.model(tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())


def model_of(place, args):
    config = json.loads((place / "start" / "config.json").read_text())
    return Mixture(place / "start", args.experts) if config["model_type"] == "qwen3_moe" else Llama(place / "start")


def windows(tokens, starts, seq, device):
    rows = torch.from_numpy(np.stack([tokens[s:s + seq + 1] for s in starts]).astype(np.int64)).to(device)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def read_tokens(path):
    return np.fromfile(path, np.uint32, offset=1024)


def write_tokens(path, count, vocabulary, seed):
    head = np.zeros(256, np.int32)
    head[:3] = *TOKEN_FILE, count
    with open(path, "wb") as file:
        file.write(head.tobytes() + np.random.default_rng(seed).integers(0, vocabulary, count, np.uint32).tobytes())


def held_out(place, args):
    device, seq = args.device, args.seq
    model = model_of(place, args).to(device, torch.bfloat16 if args.type == "bf16" else torch.float32)
    batch = windows(read_tokens(place / "val.bin"), [i * seq for i in range(HELD_OUT_WINDOWS)], seq, device)
    with torch.no_grad():
        return model(*batch, *model.turns(seq)).item()


def train(place, variant, args):
    """Runs in a process of its own: {"seconds", "gib"}."""
    _, compiled, autocast = VARIANTS[variant]
    device = args.device
    parameters = torch.bfloat16 if args.type == "bf16" and not autocast else torch.float32
    torch.manual_seed(0)
    model = model_of(place, args).to(device, parameters)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    norms = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": norms, "weight_decay": 0}], lr=1e-4,
                                  betas=(0.9, 0.95), fused=True)
    loss_of = torch.compile(model) if compiled else model
    tokens = read_tokens(place / "train.bin")
    starts = np.random.default_rng(2).integers(0, len(tokens) - args.seq - 1, (args.steps, args.batch))
    batches = [windows(tokens, row, args.seq, device) for row in starts]
    turns = model.turns(args.seq)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def step(batch):
        with torch.autocast(device, torch.bfloat16, enabled=autocast), sdpa_kernel(ATTENTION, set_priority=True):
            loss = loss_of(*batch, *turns)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    # The first steps compile. Behind them the host waits for nothing: of a card, as of the trainer, all steps are in flight.
    warm = args.steps // 3
    losses = [step(batch) for batch in batches[:warm]]
    wait()
    begin = time.perf_counter()
    losses += [step(batch) for batch in batches[warm:]]
    wait()
    seconds = (time.perf_counter() - begin) / (args.steps - warm)
    if not all(math.isfinite(loss.item()) for loss in losses):
        sys.exit(f"{variant}: a loss that is not finite")
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else peak_resident()
    return {"seconds": seconds, "gib": peak / 2**30}


def peak_resident():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def llama(place, args, *more):
    log = place / "log"
    model = [*args.model, "--preset", args.preset, "--type", args.type, "--batch", args.batch, "--seq", args.seq]
    data = ["--tokens", place / "train.bin", "--val-tokens", place / "val.bin", "--eval-windows", HELD_OUT_WINDOWS]
    subprocess.run([str(word) for word in (args.llama, "--device", args.device, *model, *data, "--threads", args.threads, "--lr", "1e-4",
                                           "--quiet", "--log", log, *more)], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in log.read_text().splitlines()]


def vocabulary_of(args):
    usage = subprocess.run([args.llama, "--preset", args.preset, *args.model, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return int(re.search(r"--vocab N.*\[(\d+)\]", usage)[1])


def measure(place, variant, args):
    if variant.startswith("tigon"):
        end = llama(place, args, "--steps", args.steps, "--recompute", variant.split()[-1])[-1]
        peak = end["device_peak_bytes" if args.device != "cpu" else "peak_bytes"]
        return {"seconds": args.batch * args.seq / end["median_tokens_per_s"], "gib": peak / 2**30}
    environment = os.environ | {"OMP_NUM_THREADS": str(args.threads)}
    output = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child", str(place), variant], check=True, text=True,
                            stdout=subprocess.PIPE, env=environment).stdout
    return json.loads(output.splitlines()[-1])


def compare_first(place, args):
    """Both find the same held-out loss with the same parameters, or nothing is timed."""
    ours = next(line["held_out"] for line in llama(place, args, "--steps", "0", "--out", place / "start") if "held_out" in line)
    theirs = held_out(place, args)
    print(f"held-out loss of the initial parameters: Tigon {ours:.4f}, PyTorch {theirs:.4f}", flush=True)
    if not abs(ours - theirs) < LIMIT[args.type]:
        sys.exit(f"the difference is beyond {LIMIT[args.type]}")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", default="124m", help="of the trainer; default: 124m")
    parser.add_argument("--type", choices=("f32", "bf16"), default="bf16", help="default: bf16")
    for name, value, text in (("batch", 4, "windows in a step"), ("seq", 256, "tokens in a window"), ("steps", 20, "steps of a process"),
                              ("rounds", 3, "processes of each variant"), ("threads", os.cpu_count(), "on the CPU")):
        parser.add_argument(f"--{name}", type=int, default=value, metavar="N", help=f"{text}; default: {value}")
    parser.add_argument("--recompute", default="0,2", metavar="A,B", help="Tigon's variants; default: 0,2")
    parser.add_argument("--variants", default=";".join(VARIANTS), metavar="A;B", help=f"PyTorch's; default: {';'.join(VARIANTS)}")
    parser.add_argument("--llama", type=Path, default=ROOT / "build" / "llama", help="default: build/llama")
    parser.add_argument("--model", type=str.split, default=[], metavar="'--layers 2'", help="more options of the trainer's model")
    parser.add_argument("--experts", default="grouped_mm", help="transformers' way to compute experts: eager, batched_mm or grouped_mm (default)")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = options()
    torch.set_num_threads(args.threads)
    if args.child:
        print(json.dumps(train(Path(args.child[0]), args.child[1], args)))
        return
    variants = [f"tigon --recompute {n}" for n in args.recompute.split(",")]
    variants += [v for v in args.variants.split(";") if args.type in VARIANTS[v][0]]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        vocabulary = vocabulary_of(args)
        write_tokens(place / "train.bin", 1 << 22, vocabulary, 1)
        write_tokens(place / "val.bin", HELD_OUT_WINDOWS * args.seq + 1, vocabulary, 2)
        compare_first(place, args)
        results = {variant: [] for variant in variants}
        for _ in range(args.rounds):
            for variant in variants:
                try:
                    results[variant].append(measure(place, variant, args))
                except subprocess.CalledProcessError as problem:  # out of memory, mostly
                    print(f"{variant}: {problem}", file=sys.stderr)
    print_table(results, args)


def print_table(results, args):
    if args.device == "cuda":
        print(torch.cuda.get_device_name(), end=", ")
    print(f"PyTorch {torch.__version__}, {args.preset}, {args.type}, batch {args.batch} x {args.seq}, {args.rounds} rounds\n")
    print("| | tokens/s | Tigon's rate over it | memory, GiB |\n|---|---:|---:|---:|")
    rate = {v: args.batch * args.seq / statistics.median(r["seconds"] for r in runs) for v, runs in results.items() if runs}
    best = max(value for name, value in rate.items() if name.startswith("tigon"))
    for variant, value in rate.items():
        print(f"| {variant} | {value:.4g} | {best / value:.2f} | {max(r['gib'] for r in results[variant]):.1f} |")


if __name__ == "__main__":
    main()
