"""A training step of Hugging Face's Llama of 124 million parameters on the CPU: PyTorch eager, torch.compile, and with Tigon.

    OMP_NUM_THREADS=2 PYTHONPATH=build/python python bindings/python/bench/step.py [--dtypes f32,bf16] [--steps 3] [--layers 12]

Each measurement is a process of its own, which makes the model, runs a step to warm up, and times the next ones; rounds of all variants
follow each other, and the least time of a variant counts. Memory is what the steps add at their peak to the model's and gradients'.
"""
import argparse
import json
import re
import subprocess
import sys
import time

VARIANTS = ("eager", "compile", "tigon")
SIZES = {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 12, "vocab_size": 50304}
BATCH, LENGTH = 4, 256


def resident(name):
    """VmRSS or VmHWM, its peak, of this process in MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(rf"{name}:\s+(\d+) kB", file.read())[1]) / 1024


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def prepare(variant, dtype, layers):
    """(model, optimizer), the model in that type."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, num_hidden_layers=layers)).to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    model.train()
    if variant != "tigon":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        return (torch.compile(model) if variant == "compile" else model), optimizer
    import tigon.torch
    import tigon.transformers

    return tigon.transformers.apply_to(model, attention=True), tigon.torch.AdamW(model.parameters(), lr=1e-4)


def measure(variant, dtype, layers, steps):
    import torch

    model, optimizer = prepare(variant, dtype, layers)
    ids = torch.randint(SIZES["vocab_size"], (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))

    def step():
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss.item()

    first = step()  # compiles, and allocates gradients and moments, which stay
    before = resident("VmRSS")
    forget_peak()
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        last = step()
        times.append(time.perf_counter() - start)
    return {"seconds": min(times), "memory": resident("VmHWM") - before, "losses": (first, last)}


def child(variant, dtype, options):
    command = [sys.executable, __file__, "--variant", variant, "--dtypes", dtype]
    command += ["--layers", str(options.layers), "--steps", str(options.steps)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options.variant, options.dtypes, options.layers, options.steps)))
        return
    for dtype in options.dtypes.split(","):
        found = [{variant: child(variant, dtype, options) for variant in VARIANTS} for _ in range(options.rounds)]
        least = {v: {key: min(f[v][key] for f in found) for key in ("seconds", "memory")} for v in VARIANTS}
        for variant, got in least.items():
            speed = least["compile"]["seconds"] / got["seconds"]
            memory = got["memory"] / least["compile"]["memory"]
            print(f"{dtype:5}{variant:8} {got['seconds']:7.2f} s   {got['memory']:7.0f} MiB   {speed:5.2f} x   {memory:5.2f} of the memory")


if __name__ == "__main__":
    main()
