#!/usr/bin/env python3
"""npu_bounds.py [BUILD] - rows of the NPU's model that take longer than their bytes, and what they wait for, as a table in Markdown for
docs/results/npu-bounds.md. Of each operator the third call of the benchmark's large problem, bf16: its time beside that of its bytes over
the memory's bandwidth, how long each kind of unit of a core was busy, and the cycles that the vector unit's instructions take for 64
elements of what has to be moved, beside those that the memory takes for them. An operator is a name, or a name and sizes."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHIPS = ("910B1", "910B4")
SIZE = 2  # bytes of bf16
ROWS = ("fused_ce_tvd", "mhc_coeffs", "causal_conv1d", "moe_router", "jsd", "dyt", "poly_norm", "sparsemax", "embedding",
        "embedding D=128 V=32000 BT=32768", "softmax R=524288 N=8", "rms_norm R=524288 N=8", "layer_norm R=524288 N=8",
        "poly_norm R=524288 N=8", "dyt R=524288 N=8", "sparsemax R=524288 N=8", "jsd R=524288 N=8", "cross_entropy BT=524288 V=8")
HEADER = """# What bounds rows of the NPU's model

Large problems of the benchmark, or those named, bf16, third call, *model*. `times`: the time over that of the bytes that have to be moved,
over the bandwidth of the modelled HBM. `vector`, `scalar`, `in`, `out`: the part of the time that this unit of a core is busy, or waits for
what its own instructions depend on, in the launch that takes longest; `bound`: what the model says of that launch. `cycles`: what vector
instructions take, with the waits between those that depend on each other, for 64 elements of those bytes, over all launches; `memory`: what
the memory takes for them. Where `cycles` is above `memory`, the row is bound by its instructions, and takes `cycles` / `memory` times its
bytes: another order of copies does not make it faster, fewer instructions an element do. `mhc_coeffs` is not: it is products on the cube
cores, and goes through memory more than once. `embedding` backward with narrow rows has a copy and an addition for each row.

Written by `python3 scripts/npu_bounds.py > docs/results/npu-bounds.md`, after a build.
"""


def answer(build, chip, *words):
    """What a command says in JSON."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(build / "tigon"), *words, "--json"], check=False, capture_output=True, text=True, cwd=folder,
                              env={**os.environ, "TIGON_SOC": chip})
    if done.returncode:
        sys.exit(f"tigon {' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def chips(build):
    """Facts of each chip by name."""
    lines = [line.split() for line in subprocess.run([str(build / "ascsim"), "chips"], check=True, capture_output=True,
                                                     text=True).stdout.splitlines()]
    return {line[0]: dict(zip(lines[0], line)) for line in lines[1:] if line and line[0] in CHIPS}


def row(build, facts, chip, operator, mode, sizes):
    """Cells of one direction on one chip."""
    problem = ["--shape", sizes] if sizes else []
    timed = answer(build, chip, "bench", f"{operator}_{mode}", "--device", "npu-model", "--size", "large", "--dtype", "bf16", "--provider", "tigon",
                   "--no-check", *problem)[0]
    launches = answer(build, chip, "profile", f"{operator}_{mode}", "--soc", chip, "--dtype", "bf16", *(problem or ["--size", "large"]))["launches"]
    longest = max(launches, key=lambda launch: launch["model_us"])
    mhz, cores = float(facts["clock_mhz"]), int(facts["vector_cores"])
    pieces = timed["bytes"] / SIZE / 64
    cycles = sum((launch["vector"] or 0) * launch["model_us"] * launch["blocks"] for launch in launches) * mhz / pieces
    memory = 64 * SIZE * cores / float(facts["hbm_bytes_per_second"]) * mhz * 1e6
    return [timed["operator"], timed["shape"], mode, chip, f"{timed['ms_50'] * 1e3:.0f}", f"{1 / timed['fraction_of_limit']:.2f}",
            longest["bound"], *(f"{100 * (longest[unit] or 0):.0f}" for unit in ("vector", "scalar", "copy_in", "copy_out")), f"{cycles:.1f}",
            f"{memory:.1f}"]


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    facts = chips(build)
    print(HEADER)
    print("| operator | sizes | direction | chip | us | times | bound | vector % | scalar % | in % | out % | cycles | memory |")
    print("|---|---|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|")
    for named in ROWS:
        operator, _, sizes = named.partition(" ")
        for mode in ("forward", "backward"):
            for chip in CHIPS:
                print("|", " | ".join(row(build, facts[chip], chip, operator, mode, sizes)), "|", flush=True)


if __name__ == "__main__":
    main()
