#!/usr/bin/env python3
"""npu_bounds.py [BUILD [ROW...]] - rows of the NPU's model that take longer than their bytes, and what they wait for, as a table in Markdown for
docs/results/npu-bounds.md. Of each operator the third call of the benchmark's large problem, bf16: its time beside that of its bytes over
the memory's bandwidth, how long each kind of unit of a core was busy, and the cycles that the vector unit's instructions take for 64
elements of what has to be moved, beside those that the memory takes for them. An operator is a name, or a name and sizes; with ROW
those alone, without the page around them."""
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHIPS = ("910B1", "910B4")
SIZE = 2  # bytes of bf16
ROWS = ("fused_ce_tvd", "mhc_coeffs", "causal_conv1d", "moe_router", "jsd", "dyt", "poly_norm", "sparsemax", "embedding",
        "embedding D=128 V=32000 BT=32768", "softmax R=524288 N=8", "rms_norm R=524288 N=8", "layer_norm R=524288 N=8",
        "poly_norm R=524288 N=8", "dyt R=524288 N=8", "sparsemax R=524288 N=8", "jsd R=524288 N=8", "cross_entropy BT=524288 V=8")
# Vector instructions that an element of a row needs, of bf16, as few as we know formulas for that keep the digits that the check asks for:
# names as in sim/src/time/costs.inc, each with how often, once if nothing is said. An addition is what a sum of all elements takes, a
# datablock reduction that of a row or of a part of one. Numbers of rows are left out, and so is all waiting.
SIGMOID = "exp, add_scalar, div"
EXPM1 = "exp, log, add_scalar, sub, fma"  # E = exp(v), E - 1 + E (v - log E)
TANH = "2 add_scalar, 2 mul, mul_scalar, mul_add, axpy, 2 max, 2 min"  # 1 - 2 / (E + 1), held between two sums of the series
NEEDED = {
    # log W = log s + (z - (s - 1)); terms of T log T and W log W
    "jsd forward": "2 convert, 2 max_scalar, max, min, sub, 2 exp, 2 log, 3 add_scalar, mul_scalar, 3 mul, 2 sub, axpy, add",
    "jsd backward": f"3 convert, 2 max_scalar, max, min, 2 sub, {EXPM1}, exp, mul_scalar, 2 add_scalar, log, sub, 2 add, mul, mul_scalar",
    "dyt forward": f"2 convert, mul_scalar, max_scalar, min_scalar, {EXPM1}, add_scalar, div, mul_add",
    "dyt backward": f"3 convert, mul_scalar, max_scalar, min_scalar, exp, mul, add_scalar, div, 2 mul, {TANH}, 4 mul, mul_scalar, 3 add",
    "poly_norm forward": "2 convert, 4 mul, 3 datablock_reduce_sum, 3 mul_add",
    "poly_norm backward": "3 convert, 8 mul, 6 datablock_reduce_sum, 5 mul_add, add",
    # maxima, differences to them, two steps of the threshold and one of differences to itself
    "sparsemax forward": "2 convert, datablock_reduce_max, 2 sub, 4 sub_relu, 3 min_scalar, 6 datablock_reduce_sum",
    # probabilities for the losses, scores, keys of which NaN is the largest; a repeat of bitsort sorts 32 keys: of 256 as many, then those of
    # eight groups, and four of their lists are merged
    "moe_router forward": f"convert, max, sub, exp, add, div, add, {SIGMOID}, add, 4 and, 2 min, 2.25 bitsort, .5 mrgsort4",
    "causal_conv1d forward": f"2 convert, mul, 3 fma, add, {SIGMOID}",
    "causal_conv1d backward": f"3 convert, 2 mul, 6 fma, add, {SIGMOID}, add_scalar, mul_add, 2 mul, 4 mul, 5 add",
}
# Of short rows what transposes them comes on top, of each tensor: a gather of 16 bits.
SHORT = {
    "softmax forward": "2 convert, max, sub, exp, add, div, 2 gather",
    "softmax backward": "3 convert, mul, add, sub, mul, 3 gather",
    "rms_norm forward": "2 convert, mul, add, 2 mul, 2 gather",
    "rms_norm backward": "3 convert, 6 mul, 2 add, sub, 3 gather",
    "layer_norm forward": "2 convert, add, sub, mul, add, mul, mul_add, 2 gather",
    "layer_norm backward": "3 convert, 6 mul, 4 add, 3 sub, 3 gather",
}
HEADER = """# What bounds rows of the NPU's model

Large problems of the benchmark, or those named, bf16, third call, *model*. `times`: the time over that of the bytes that have to be moved, over
the bandwidth of the modelled HBM. `vector`, `scalar`, `in`, `out`: the part of the time that this unit of a core is busy, or waits for what its
own instructions depend on, in the launch that takes longest; `bound`: what the model says of that launch. For 64 elements of those bytes,
`cycles`: what vector instructions take, with the waits between those that depend on each other, over all launches; `waits`: of these what they
wait at barriers, `banks`: what they wait for banks of UB, both empty where a row was made without them; `memory`: what the memory takes;
`needed`: what the instructions take that an element needs by the formulas of the script's lists (`NEEDED`, `SHORT`), each as long as a repeat of
it is in `sim/src/time/costs.inc`, without any waiting, bank conflicts, or work for a row. `over`: the time over the longer one of `memory` and
`needed`. Where `needed` is above `memory`, another order of copies does not make a row faster: fewer instructions an element do.

`mhc_coeffs` is products on the cube cores, and goes through memory more than once. `embedding` backward has a copy and an addition for each row:
at D = 128 a core copies 683 rows, one in 20.6 cycles, which takes 7.6 us; two launches that sort the positions take 11.5 us. `moe_router` sorts:
of 256 keys sorting and merging take most of what is needed; its backward takes the scalar unit a read, a mask and an instruction for each chosen
expert.

What stands between `needed` and `cycles` are `waits`, `banks`, and instructions on numbers of rows and on parts of sums: `cycles` less the two
is what the kernel issues. An instruction waits some 20 to 37 cycles at a barrier for the one before it, and a tile in UB has 60 to 190 repeats.
A row of 8 elements has an eighth of an element's work in each number of its own: `poly_norm` has three variances, roots and factors a row,
`layer_norm` two sums, all backwards sums of columns that are added up lane by lane. `sparsemax` of 8 elements is a network that sorts (19 pairs
a row, each a largest and a smallest of two), sums of the first k, and a last step of differences to the threshold; of 4096 elements a tile has 3
rows, and each of its six steps some ten numbers a row that wait for each other.

Written by `python3 scripts/npu_bounds.py > docs/results/npu-bounds.md`, after a build.
"""

# The benchmark's forward leaves these out.
GRADIENTS = {"jsd": "-dstudent", "cross_entropy": "-dlogits"}

COSTS = {}
CALLS = 3  # that a profile has


def answer(build, chip, *words):
    """What a command says in JSON, and the rows of the table of source lines if it leaves one."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([str(build / "tigon"), *words, "--json"], check=False, capture_output=True, text=True, cwd=folder,
                              env={**os.environ, "TIGON_SOC": chip})
        if done.returncode:
            sys.exit(f"tigon {' '.join(words)}: {done.stderr.strip()}")
        lines = pathlib.Path(folder, "tigon-profile", "lines.csv")
        return json.loads(done.stdout), list(csv.DictReader(lines.open(encoding="utf-8"))) if lines.exists() else []


def chips(build):
    """Facts of each chip by name."""
    lines = [line.split() for line in subprocess.run([str(build / "ascsim"), "chips"], check=True, capture_output=True,
                                                     text=True).stdout.splitlines()]
    return {line[0]: dict(zip(lines[0], line)) for line in lines[1:] if line and line[0] in CHIPS}


def costs():
    """Cycles that a repeat of each vector instruction takes: of 64 elements of 32 bits, and of gathers half of 128 of 16 bits."""
    text = (ROOT / "sim/src/time/costs.inc").read_text()
    cycles = {name: float(wide) for name, wide in re.findall(r"COST\((\w+), \d+, \d+, (\d+)\)", text)}
    cycles["gather"] = float(re.search(r"COST\(gather, \d+, (\d+)", text)[1]) / 2
    return cycles


def needed(operator, mode, sizes):
    """Cycles that 64 elements of a row need, or None where nothing is listed."""
    key = f"{operator} {mode}"
    listed = SHORT.get(key) if sizes else NEEDED.get(key)
    if sizes and not listed and key in NEEDED:
        listed = NEEDED[key] + (", 2 gather" if mode == "forward" else ", 3 gather")
    if not listed:
        return None
    total = 0.0
    for item in listed.split(", "):
        often, _, name = item.rpartition(" ")
        total += float(often or 1) * COSTS[name]
    return total


def elements_of(shape):
    """Of a row's tensor: the product of the sizes that are rows and columns, in the benchmark's words for them."""
    return math.prod(int(size) for name, size in re.findall(r"(\w+)=(\d+)", shape) if name in ("R", "N", "BT", "V", "E", "B", "S", "C"))


def row(build, facts, chip, operator, mode, sizes):
    """Cells of one direction on one chip."""
    problem = ["--shape", sizes] if sizes else []
    timed = answer(build, chip, "bench", f"{operator}_{mode}", "--device", "npu-model", "--size", "large", "--dtype", "bf16", "--provider", "tigon",
                   "--no-check", *problem)[0][0]
    gradient = GRADIENTS.get(operator, "") if mode == "forward" else ""
    asked = ["--size", "large", "--shape", f"{sizes} {gradient}".strip()] if sizes or gradient else ["--size", "large"]
    profile, lines = answer(build, chip, "profile", f"{operator}_{mode}", "--soc", chip, "--dtype", "bf16", *asked)
    launches = profile["launches"]
    longest = max(launches, key=lambda launch: launch["model_us"])
    mhz, cores = float(facts["clock_mhz"]), int(facts["vector_cores"])
    pieces = timed["bytes"] / SIZE / 64
    cycles = sum((launch["vector"] or 0) * launch["model_us"] * launch["blocks"] for launch in launches) * mhz / pieces
    waits, banks = (count / CALLS / pieces for count in lost(lines))
    memory = 64 * SIZE * cores / float(facts["hbm_bytes_per_second"]) * mhz * 1e6
    return [timed["operator"], timed["shape"], mode, chip, f"{timed['ms_50'] * 1e3:.0f}", f"{1 / timed['fraction_of_limit']:.2f}",
            longest["bound"], *(f"{100 * (longest[unit] or 0):.0f}" for unit in ("vector", "scalar", "copy_in", "copy_out")), f"{cycles:.1f}",
            f"{waits:.1f}", f"{banks:.1f}", f"{memory:.1f}", *bound_of_needs(timed, mode, sizes, cores * mhz, pieces)]


def lost(lines):
    """Cycles of all cores in which vector units wait at barriers for what they compute, and for banks of UB."""
    own = [line for line in lines if line["pipe"] == "vector"]
    return (sum(float(line["wait_cycles"]) for line in own if line["call"] == "asc_sync_pipe"),
            sum(float(line["bankgroup_cflt_cycles"]) + float(line["bank_cflt_cycles"]) for line in own))


def bound_of_needs(timed, mode, sizes, cycles_per_us, pieces):
    """What is needed for 64 elements of the bytes, and the time over the longer one of that and of the bytes' own."""
    cycles = needed(timed["operator"], mode, sizes)
    if cycles is None:
        return ["", ""]
    repeats = elements_of(timed["shape"]) / 64
    least = max(cycles * repeats / cycles_per_us, timed["ms_50"] * 1e3 * timed["fraction_of_limit"])
    return [f"{cycles * repeats / pieces:.1f}", f"{timed['ms_50'] * 1e3 / least:.2f}"]


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    facts = chips(build)
    COSTS.update(costs())
    if not sys.argv[2:]:
        print(HEADER)
    print("| operator | sizes | direction | chip | us | times | bound | vector % | scalar % | in % | out % | cycles | waits | banks | memory | needed | over |")
    print("|" + "---|" * 4 + "---:|" * 2 + "---|" + "---:|" * 10)
    for named in sys.argv[2:] or ROWS:
        operator, _, sizes = named.partition(" ")
        for mode in ("forward", "backward"):
            for chip in CHIPS:
                print("|", " | ".join(row(build, facts[chip], chip, operator, mode, sizes)), "|", flush=True)


if __name__ == "__main__":
    main()
