#!/usr/bin/env python3
"""bench_table.py [--tigon build/tigon] [--rounds N] [--dtype bf16] [OPERATOR...] - the operators that the memory bounds, on a GPU: one table of
`tigon bench --device cuda` in Markdown, for docs/results/cuda.md. Shapes are of 8192 x 4096 elements or more; an OPERATOR is the beginning of a name."""
import argparse
import json
import subprocess
import sys

ROWS = (  # operator, what the table calls it beside its sizes, sizes and options
    ("rms_norm", "", "R=8192 N=4096"),
    ("rms_norm", "", "R=8192 N=8192"),
    ("fused_add_rms_norm", "", "R=8192 N=4096"),
    ("layer_norm", "", "R=8192 N=4096"),
    ("layer_norm", "", "R=8192 N=5120"),
    ("poly_norm", "", "R=8192 N=4096"),
    ("dyt", "", "R=8192 N=4096"),
    ("group_norm", "", "B=64 S=4096 C=256 num_groups=32"),
    ("swiglu", "", "R=8192 F=14336"),
    ("geglu", "", "R=8192 F=14336"),
    ("geglu", "exact", "R=8192 F=14336 exact=1"),
    ("relu_squared", "", "R=8192 N=14336"),
    ("softmax", "", "R=8192 N=4096"),
    ("sparsemax", "", "R=8192 N=4096"),
    ("rope", "", "B=4 S=4096 Hq=32 Hk=8 D=128 P=4096 C=64"),
    ("llama4_rope", "", "B=4 S=4096 Hq=32 Hk=8 D=128 P=4096 C=64"),
    ("qwen2vl_mrope", "", "B=4 S=4096 Hq=28 Hk=4 D=128 C=64"),
    ("embedding", "", "V=128256 BT=8192 D=4096"),
    ("cross_entropy", "", "BT=8192 V=32000"),
    ("cross_entropy", "", "BT=4096 V=128256"),
    ("selective_log_softmax", "", "B=8 L=1024 V=32000"),
    ("grpo_loss", "", "B=8 L=1024 V=32000"),
    ("kl_div", "", "R=8192 N=4096"),
    ("tvd", "", "R=8192 N=4096"),
    ("jsd", "", "R=8192 N=4096"),
    ("jsd", "beta .3", "R=8192 N=4096 beta=0.3"),
    ("softmax_jsd", "", "R=2048 N=32000"),
    ("sum_rows", "", "R=8192 N=4096"),
    ("sum_squares", "", "R=8192 N=4096"),
    ("fused_neighborhood_attention", "", "B=2 H=16 S=4096 D=64"),
    ("rms_norm", "of heads", "R=262144 N=128"),
    ("softmax_logp", "", "BT=2048 V=128256"),
    ("softmax_kl_div", "", "R=2048 N=32000"),
    ("fused_ce_tvd", "", "BT=4096 V=128256"),
    ("attn_res", "", "L=8 R=8192 D=4096"),
    ("mhc_coeffs", "", "R=8192 S=4 C=4096"),
    ("mhc_pre", "", "R=8192 S=4 C=4096"),
    ("mhc_post_res", "", "R=8192 S=4 C=4096"),
    ("causal_conv1d", "", "B=2 S=4096 C=4096 K=4"),
)
MODES = ("forward", "backward", "full")
WHOLE = ("cross_entropy", "softmax_jsd", "softmax_kl_div")  # whose gradient comes with the loss, too


def bench(args, operator, shape):
    """Records of one row of the table, by mode."""
    modes = MODES if operator in WHOLE else MODES[:2]
    command = [args.tigon, "bench", "--device", "cuda", "--json", "--provider", "tigon", "--dtype", args.dtype, "--rounds", str(args.rounds),
               "--cache", "cold", "--no-check", "--mode", ",".join(modes), "--size", "large", "--shape", shape]
    names = [operator] if operator in WHOLE else [f"{operator}_{mode}" for mode in modes]  # and not those that begin like it
    run = subprocess.run(command + names, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.stderr.write(run.stdout + run.stderr)
    try:
        records = json.loads(run.stdout)
    except ValueError:
        return {}
    return {r["mode"]: r for r in records if r["operator"] == operator}


def cells(record):
    """Microseconds, and the fraction of the copy."""
    if not record:
        return "| "
    fraction = record["fraction_of_limit"]
    return f"{record['ms_50'] * 1e3:.4g} | {fraction:.2f}".replace(" 0.", " .")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tigon", default="build/tigon")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("operators", nargs="*")
    args = parser.parse_args()
    head = " | ".join(f"{mode} µs | of a copy" for mode in MODES)
    device = None
    for operator, name, shape in ROWS:
        if args.operators and not operator.startswith(tuple(args.operators)):
            continue
        of = bench(args, operator, shape)
        if of and not device:
            device = next(iter(of.values()))["device"]
            print(f"{device}, {args.dtype}:\n\n| operator | sizes | {head} |\n|---|---|{'---:|' * 6}")
        print(f"| `{operator}`{', ' + name if name else ''} | `{shape}` | {' | '.join(cells(of.get(mode)) for mode in MODES)} |", flush=True)


if __name__ == "__main__":
    main()
