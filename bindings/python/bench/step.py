"""A training step of a Llama, Qwen3 or Gemma 3 of Hugging Face: PyTorch eager, torch.compile, with Liger-Kernel's kernels (on a card), and with Tigon.

    OMP_NUM_THREADS=2 PYTHONPATH=build/python python bindings/python/bench/step.py                   # 124 million parameters, on the CPU
    PYTHONPATH=build/python python bindings/python/bench/step.py --device cuda --model 1b --dtypes bf16 --batch 16 --length 2048

Each measurement is a process of its own, which makes the model with random weights, runs steps to warm up, and times the next ones;
rounds of all variants follow each other, and the least time of a variant counts: of a single step on the CPU, and of all steps of a process
on a card, which is slower once it is warm. Memory is what a step adds at its peak to the model,
its gradients and the optimizer's state on the CPU, and all that PyTorch has allocated at the peak on a card. All variants have
PyTorch's fused AdamW. `--profile` prints the kernels on which a card spends its time instead.
"""
import argparse
import json
import re
import subprocess
import sys
import time

import torch

SMALL = {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 50304}
MODELS = {  # the type of transformers, and its sizes
    "124m": ("llama", {**SMALL, "num_key_value_heads": 12}),
    "qwen3-124m": ("qwen3", {**SMALL, "num_key_value_heads": 4, "head_dim": 64}),
    "gemma3-124m": ("gemma3_text", {**SMALL, "num_key_value_heads": 4, "head_dim": 64, "sliding_window": 128}),
    "1b": ("llama", {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8,
                     "num_hidden_layers": 16, "vocab_size": 128256, "head_dim": 64, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}),
    "qwen3-0.6b": ("qwen3", {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8,
                             "num_hidden_layers": 28, "vocab_size": 151936, "head_dim": 128, "tie_word_embeddings": True}),
    "gemma3-1b": ("gemma3_text", {"hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1,
                                  "num_hidden_layers": 26, "vocab_size": 262144, "head_dim": 256, "sliding_window": 512}),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def with_liger(model):
    from liger_kernel.transformers import _apply_liger_kernel_to_instance

    _apply_liger_kernel_to_instance(model)
    return model


def with_tigon(model, linear=False):
    import tigon.transformers

    return tigon.transformers.apply_to(model, linear=linear)


VARIANTS = {
    "eager": lambda model: model, "compile": torch.compile, "liger": with_liger, "apply_to": with_tigon,
    "tigon": lambda model: with_tigon(model, linear=True),
}


class Host:
    """The CPU's clock, or the time that it spends on this process, and memory as Linux tells it, in MiB."""

    together = 1  # steps that are timed at once

    def __init__(self, clock="wall"):
        self.now = time.process_time if clock == "process" else time.perf_counter

    @staticmethod
    def _status(name):
        with open("/proc/self/status", encoding="ascii") as file:
            return int(re.search(rf"{name}:\s+(\d+) kB", file.read())[1]) / 1024

    def forget_peak(self):
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        self.before = self._status("VmRSS")

    def peak(self):
        return self._status("VmHWM") - self.before

    def wait(self):
        pass


class Card:
    now = staticmethod(time.perf_counter)

    def __init__(self, steps=1):
        self.together = steps

    def forget_peak(self):
        torch.cuda.reset_peak_memory_stats()

    def peak(self):
        return torch.cuda.max_memory_allocated() / 2**20

    def wait(self):
        torch.cuda.synchronize()


def make_model(options, dtype, **settings):
    """The model that is asked for, with random weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    kind, sizes = MODELS[options.model]
    config = AutoConfig.for_model(kind, **{**sizes, "num_hidden_layers": options.layers or sizes["num_hidden_layers"]}, **settings)
    with torch.device(options.device):
        return AutoModelForCausalLM.from_config(config).to(dtype)


def make_step(model, optimizer, options, seed):
    """step(), which makes one step on the same tokens each time and returns its loss."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(MODELS[options.model][1]["vocab_size"], (options.batch, options.length), generator=random).to(options.device)

    def step():
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def prepare(options):
    model = make_model(options, DTYPES[options.dtypes], use_cache=False).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return make_step(VARIANTS[options.variant](model), optimizer, options, 1)


def profile(step):
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recorded

    with recorded(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        step().item()
    print(found.key_averages().table(sort_by="self_device_time_total", row_limit=30, max_name_column_width=70))


def measure(options):
    step, device = prepare(options), Card(options.steps) if options.device == "cuda" else Host(options.clock)
    first = step().item()  # compiles, and allocates gradients and moments, which stay
    for _ in range(options.warmup):
        step()
    if options.profile:
        profile(step)
    device.forget_peak()
    times = []
    for _ in range(options.steps // device.together):
        device.wait()
        start = device.now()
        for _ in range(device.together):
            last = step()
        device.wait()
        times.append((device.now() - start) / device.together)
    return {"seconds": min(times), "memory": device.peak(), "losses": (first, last.item())}


def child(variant, dtype, options):
    """What a process of its own measures, None where it fails, as it does for want of memory."""
    command = [sys.executable, __file__, "--variant", variant, "--dtypes", dtype]
    for name in ("device", "model", "layers", "batch", "length", "steps", "warmup", "clock"):
        command += [f"--{name}", str(getattr(options, name))]
    process = subprocess.run(command + ["--profile"] * options.profile, stdout=subprocess.PIPE, text=True)
    *lines, last = process.stdout.splitlines() or [""]
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    return json.loads(last) if process.returncode == 0 else None


def compare(dtype, options):
    variants = options.variants.split(",")
    rounds = [{v: child(v, dtype, options) for v in variants} for _ in range(options.rounds)]
    least = {v: {key: min(r[v][key] for r in rounds) for key in ("seconds", "memory")} for v in variants if all(r[v] for r in rounds)}
    base = least.get(variants[0])
    for variant, got in least.items():
        rate = options.batch * options.length / got["seconds"]
        beside = "" if not base else f"   {base['seconds'] / got['seconds']:5.2f} x {variants[0]}"
        if base and base["memory"]:  # none where a warm step finds all its memory kept
            beside += f"   {got['memory'] / base['memory']:5.2f} of its memory"
        print(f"{dtype:5}{variant:8} {got['seconds']:8.3f} s   {rate:8.0f} tokens/s   {got['memory']:7.0f} MiB{beside}")
    for variant in set(variants) - set(least):
        print(f"{dtype:5}{variant:8} fails")


def arguments(doc, **defaults):
    """A parser of what the programs of this folder have in common."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--model", choices=MODELS, default="124m")
    parser.add_argument("--variants", help="the others are compared with the first")
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the model has")
    for name in ("batch", "length", "steps", "warmup", "rounds"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.set_defaults(**defaults)
    return parser


def main():
    parser = arguments(__doc__, device="cpu", variants="compile,eager,tigon", batch=4, length=256, steps=3, warmup=1, rounds=2)
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--clock", choices=("wall", "process"), default="wall", help="process: the time of all threads, on a busy CPU")
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options)))
        return
    for dtype in options.dtypes.split(","):
        compare(dtype, options)


if __name__ == "__main__":
    main()
