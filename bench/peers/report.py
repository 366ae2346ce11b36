"""The page of ratios, in Markdown, from a file of measurements; PyTorch is not needed for that.

    report.py docs/results/peers.jsonl        prints it; of several files, as one

A line of the file is a JSON object, one of four kinds:
    family, memory_bound, note        an operator that has been measured, and what is to be said of it
    operator, ..., provider, ratio    a measurement; ratio: this provider's time over Tigon's in the same rounds
    operator, ..., left_out, why      a provider that could not run
    machine, ...                      the settings of a process that measured: its first line, and again its last
"""

import json
import math
import sys
from pathlib import Path

from names import ALLOCATORS, MODES, OTHERS, PEERS

TITLES = {"kept": "memory kept", "default": "default allocator"}
HEAD = """# Beside PyTorch{where}: results

Written by `sh bench/peers/run.sh{options} --out docs/results`, together with [{stem}.jsonl]({stem}.jsonl), the measurements that this page and
the chart come from. [The page on the benchmark](../benchmark.md#{section}) says what is compared with what, and how.
`python3 bench/peers/report.py docs/results/{stem}.jsonl` prints this page again from the measurements.

![Ratios at the large size]({stem}.svg)
"""
ON_CPU = dict(where="", options="", stem="peers", section="beside-pytorch")
ON_CARD = dict(where=" on a GPU", options=" --device cuda", stem="peers-cuda", section="on-a-gpu")


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Results:
    """The lines of a file of measurements, by their kinds; the measurements by operator, size, type, mode, allocator, provider."""

    def __init__(self, lines: list[dict]):
        self.cells = {(r["operator"], r["size"], r["dtype"], r["mode"], r["allocator"], r["provider"]): r
                      for r in lines if "provider" in r}
        self.families = {r["family"]: r for r in lines if "family" in r}
        self.left_out = [r for r in lines if "left_out" in r]
        self.about = {r["allocator"]: r for r in lines if "machine" in r}
        self.machines = list(dict.fromkeys(r["machine"] for r in lines if "machine" in r))
        self.on_card = any("cuda" in r for r in self.about.values())
        self.peers = [p for p in PEERS if p in self.present(5)]

    def get(self, *key: str) -> dict | None:
        return self.cells.get(key)

    def present(self, position: int) -> list[str]:
        return list(dict.fromkeys(key[position] for key in self.cells))

    def of_peers(self, allocator: str) -> list[dict]:
        return [r for key, r in self.cells.items() if key[4] == allocator and key[5] in self.peers]

    def is_memory_bound(self, name: str) -> bool:
        """As its line says, which comes when all of the operator has been measured."""
        return self.families.get(name, {}).get("memory_bound", False)

    def mean(self, size: str, dtype: str, allocator: str, peer: str) -> tuple[float, int] | None:
        """Geometric mean over the memory-bound operators, forward and backward together; and how many they are."""
        ratios = [r["ratio"] for key, r in self.cells.items()
                  if key[1:] == (size, dtype, "full", allocator, peer) and self.is_memory_bound(key[0])]
        return (math.exp(sum(map(math.log, ratios)) / len(ratios)), len(ratios)) if ratios else None


def table(header: list[str], body: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *body]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def ratio(record: dict | None) -> str:
    return "–" if not record else f"{record['ratio']:.2f}" if record["ratio"] < 10 else f"{record['ratio']:.0f}"


def mebibytes(record: dict | None, field: str) -> str:
    return f"{record[field] / 2**20:.0f}" if record and field in record else "–"


def of_card(about: dict, machines: list[str]) -> list[str]:
    return [f"{' and '.join(machines)}; {about['tigon']}; PyTorch {about['torch']}, eager and `torch.compile` (inductor), CUDA {about['cuda']}, "
            f"cuDNN {about['cudnn']}.", "",
            f"* small: what the host takes for a call, the card's queue being empty; medium and large: between the card's events, behind a "
            f"reading of {about['cold_bytes'] >> 20} MiB, which leaves nothing of a problem in L2"]


def of_processor(about: dict[str, dict]) -> list[str]:
    any_ = next(iter(about.values()))
    lines = [f"{any_['machine']}; {any_['tigon']}; PyTorch {any_['torch']}, eager and `torch.compile` (inductor); "
             f"{any_['threads']} threads each.", ""]
    runtimes = ", ".join("/".join(Path(file).parts[-3:]) for file in any_["openmp"])
    shared = "one runtime, one team of threads for all" if len(any_["openmp"]) == 1 else \
        "**several runtimes in one process, whose threads disturb each other**"
    lines.append(f"* OpenMP: {runtimes}, {shared}; `OMP_WAIT_POLICY` is "
                 f"{any_['environment'].get('OMP_WAIT_POLICY', 'not set')}")
    for name, meta in about.items():
        variables = " ".join(f"{k}={v}" for k, v in meta["environment"].items())
        lines.append(f"* {TITLES[name]}: a process with `{variables}`; others used {meta['others']:.2f} processors meanwhile" + (
            ", **too much for times to mean anything**" if meta["others"] > 0.1 else ""))
    return [*lines, f"* small: caches warm, by an untimed run right before; medium and large: cold, by rewriting "
            f"{any_['cold_bytes'] >> 20} MiB before each run"]


def settings(results: Results) -> list[str]:
    lines = of_card(results.about["kept"], results.machines) if results.on_card else of_processor(results.about)
    missing = next(iter(results.about.values())).get("missing", [])
    return [*lines, *(f"* not here: {why}" for why in missing), ""]


def means(results: Results) -> list[str]:
    sizes, dtypes = results.present(1), results.present(2)
    header = ["size" if results.on_card else "size, allocator",
              *(f"{dtype} {peer}" for dtype in dtypes for peer in results.peers), "operators"]
    body = []
    for size in sizes:
        for allocator in ALLOCATORS:
            found = [results.mean(size, dtype, allocator, peer) for dtype in dtypes for peer in results.peers]
            if any(found):
                counts = sorted({f[1] for f in found if f})
                body.append([size if results.on_card else f"{size}, {TITLES[allocator]}", *(f"{f[0]:.2f}" if f else "–" for f in found),
                             " to ".join(map(str, (counts[0], counts[-1]) if len(counts) > 1 else counts))])
    if not body:
        return []
    return ["Geometric means over the memory-bound operators, forward and backward together:", "", *table(header, body)]


def lowest(results: Results) -> list[str]:
    lines = []
    for allocator in ALLOCATORS:
        records = sorted(results.of_peers(allocator), key=lambda r: r["ratio"])
        if not records:
            continue
        name = lambda r: f"{r['operator']} {r['mode']} {r['size']} {r['dtype']} against {r['provider']}, {r['ratio']:.2f}"
        below = [name(r) for r in records if r["ratio"] < 1]
        which = "S" if results.on_card else f"{TITLES[allocator]}: s"
        lines.append(f"* {which}mallest ratio {name(records[0])}; "
                     f"{len(below)} of {len(records)} below 1" + (": " + "; ".join(below) if below else ""))
    return [*lines, ""]


def wrong(results: Results) -> list[str]:
    """Words on results beyond the tolerance, one line for each."""
    return [f"{key[0]} {key[1]} {key[2]} {key[3]}, {key[5]}{'' if results.on_card else ', ' + TITLES[key[4]]}: "
            f"relative error {r['error']:.1e}" for key, r in results.cells.items() if not r["correct"]]


def ratios(results: Results, size: str, dtype: str) -> list[str]:
    modes = [m for m in MODES if m in results.present(3)]
    allocators = [a for a in ALLOCATORS if a in results.present(4)]
    columns = [(a, m) for a in allocators for m in modes if any(
        results.get(name, size, dtype, m, a, p) for name in results.present(0) for p in results.peers)]
    header = ["operator", "shape", *(f"{m}, ms" for m in modes), *(m if results.on_card else f"{m}, {TITLES[a]}" for a, m in columns)]
    body = []
    for name in results.present(0):
        times = [results.get(name, size, dtype, m, allocators[0], "tigon") for m in modes]
        if any(times):
            cells = [" / ".join(ratio(results.get(name, size, dtype, m, a, p)) for p in results.peers)
                     if results.get(name, size, dtype, m, a, "tigon") else "–" for a, m in columns]
            shape = next(t for t in times if t)["shape"]
            body.append([name, shape, *(f"{t['ms_50']:.4g}" if t else "–" for t in times), *cells])
    return [f"## {size}, {dtype}", "", *table(header, body)] if body else []


def others(results: Results) -> list[str]:
    modes = [m for m in MODES if m in results.present(3)]
    body = []
    for provider, words in OTHERS.items():
        for name in results.present(0):
            for size in results.present(1):
                for dtype in results.present(2):
                    found = [results.get(name, size, dtype, m, "kept", provider) for m in modes]
                    if any(found):
                        body.append([name, size, dtype, words, *(ratio(f) for f in found)])
    if not body:
        return []
    return ["## Others", "", "Their time over Tigon's.", "", *table(["operator", "size", "type", "beside", *modes], body)]


def rates(results: Results) -> list[str]:
    """Of problems that say what they compute or read."""
    found = {key: r for key, r in results.cells.items() if key[1] == "large" and key[4] == "kept" and ("tflops" in r or "gbytes" in r)}
    providers = [p for p in results.present(5) if any(key[5] == p for key in found)]
    body = []
    for name, size, dtype, mode, allocator, _ in dict.fromkeys((*key[:5], "") for key in found):
        row = [found.get((name, size, dtype, mode, allocator, p), {}) for p in providers]
        body.append([name, next(r["shape"] for r in row if r), dtype, mode, "TFLOP/s" if any("tflops" in r for r in row) else "GB/s",
                     *(f"{value:.0f}" if (value := r.get("tflops", r.get("gbytes"))) else "–" for r in row)])
    if not body:
        return []
    return ["## Rates", "", "Of pairs of queries and keys that see each other: 4 operations a pair and element of a head forward, 10 backward. "
            "Few queries: of reading keys and values once.", "",
            *table(["operator", "shape", "type", "mode", "", *providers], body)]


def memory(results: Results) -> list[str]:
    providers = results.peers if results.on_card else ["tigon", *results.peers]
    allocator = "kept" if results.on_card else "default"
    body = []
    for name in results.present(0):
        for dtype in results.present(2):
            mine, *others = (results.get(name, "large", dtype, "full", allocator, p) for p in ("tigon", *providers))
            if mine and "extra_bytes" in mine:
                body.append([name, dtype, mebibytes(mine, "workspace_bytes"), *(mebibytes(r, "extra_bytes") for r in others)])
    if not body:
        return []
    grown = "what PyTorch's allocator held at the peak" if results.on_card else "what the process grew by at its peak"
    return ["## Memory", "", "MiB of one forward and backward at the large size, beyond inputs, results and gradients: "
            f"Tigon's workspace by its own count, then {grown}.", "",
            *table(["operator", "type", "workspace", *(p.replace("tigon", "Tigon") for p in providers)], body)]


def markdown(results: Results) -> str:
    where = ON_CARD if results.on_card else ON_CPU
    lines = [HEAD.format(**where), f"Ratios are others' time over Tigon's, medians of the same interleaved rounds: "
             f"`{' / '.join(results.peers)}`. Above 1 Tigon is faster.", "", *settings(results), *means(results), *lowest(results)]
    if bad := wrong(results):
        lines += ["Results beyond the tolerance:", "", *(f"* {line}" for line in bad), ""]
    for size in results.present(1):
        for dtype in results.present(2):
            lines += ratios(results, size, dtype)
    lines += others(results) + rates(results) + memory(results)
    notes = [f"* {name}: {family['note']}" for name, family in results.families.items() if family["note"]]
    notes += sorted({f"* {r['operator']} {r['dtype']}: {r['left_out']} is left out: {r['why']}" for r in results.left_out})
    return "\n".join(lines + (["## Notes", "", *notes] if notes else [])).rstrip() + "\n"


if __name__ == "__main__":
    print(markdown(Results([line for name in sys.argv[1:] for line in read_lines(Path(name))])), end="")
