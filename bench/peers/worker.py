"""One process: measures all cells on its device, under the allocator of its environment, and prints one JSON record a line.

    worker.py '{"allocator": "kept", "build": "build", "ops": [...], ...}'      (started by peers.py)
"""

import gc
import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable

import tigon
import torch

import operators  # noqa: F401
from clocks import CLOCKS, PROCESS
from measure import (TOLERANCE, Contestant, compiled, contestants, error, extra_memory, interleave, step_contestants,
                     truth)
from onednn import OneDNN
from problem import OPERATORS, Make, Operator, Problem, Step
from rivals import Rivals

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Seconds for a cell, and rounds at least, which is what cells of long products take.
PACE = {"cpu": {"small": (0.2, 20), "medium": (0.3, 5), "large": (1.2, 2)},
        "cuda": {"small": (0.1, 50), "medium": (0.2, 15), "large": (0.2, 15)}}
QUICK = (0.05, 3)


def digits(value: float, count: int = 4) -> float:
    return float(f"{value:.{count}g}")


def emit(**record) -> None:
    print(json.dumps(record), flush=True)


def openmp_libraries() -> list[str]:
    """Files of OpenMP runtimes mapped into this process: one, or the contestants do not share their threads."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[-1] for line in maps if re.search(r"/lib(gomp|iomp5|omp)[^/]*\.so", line)})


def processor() -> str:
    with open("/proc/cpuinfo") as info:
        names = [line.split(":")[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else platform.machine()


def seconds_of_others() -> float:
    """Processor time since boot that was not this process's."""
    with open("/proc/stat") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    busy = sum(ticks) - ticks[3] - ticks[4]  # without idle and waiting for disks
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def checked(cell: list[Contestant], expected: tuple | None, about: dict) -> list[tuple[Contestant, float]]:
    """Each contestant with its error; what cannot run (torch.compile, mostly) is left out, with a word. Without Tigon there is nothing to
    compare: nobody."""
    present = []
    for c in cell:
        try:
            results = c.results()
        except Exception as problem:  # whatever inductor throws
            emit(**about, left_out=c.name, why=str(problem).strip().split("\n")[0][:200])
            if c.name == "tigon":
                return []
            continue
        if expected is None:  # an update in place: the first, eager, is what the others are compared with
            expected = tuple(t.clone() for t in results)
        present.append((c, error(results, expected)))
    return present


def rate(problem: Problem | Step, mode: str, ms: float) -> dict:
    """What a page tells beside ratios, where the problem says what it computes or reads."""
    if isinstance(problem, Step) or not (problem.flops or problem.bytes):
        return {}
    return dict(tflops=digits(problem.flops[mode] / ms / 1e9)) if problem.flops else dict(gbytes=digits(problem.bytes / ms / 1e6))


def measure(cell: list[tuple[Contestant, float]], clock, pace, tolerance: float, about: dict, memory: bool, rate_of: Callable) -> None:
    if not cell:
        return
    times = interleave([c for c, _ in cell], clock, about["cache"] == "cold", *pace)
    tigon_ms = statistics.median(times["tigon"])
    for c, wrong in cell:
        own = times[c.name]
        quantiles = statistics.quantiles(own, n=10, method="inclusive") if len(own) > 1 else own * 9
        median = statistics.median(own)
        extra = {}
        if memory:
            tigon.workspace_trim()
            extra["extra_bytes"] = extra_memory(c, clock)
            if c.name == "tigon":
                extra["workspace_bytes"] = tigon.workspace_peak()
        emit(**about, provider=c.name, ms_20=digits(quantiles[1]), ms_50=digits(median), ms_80=digits(quantiles[7]),
             ratio=digits(median / tigon_ms), rounds=len(own), error=digits(wrong, 2), correct=wrong <= tolerance, **rate_of(median), **extra)


def compare(operator: Operator, size: str, dtype: str, request: dict, others, clock) -> None:
    device, kept = request["device"], request["allocator"] == "kept"
    sizes = operator.sizes[device][size]
    with torch.device(device):
        problem = operator.build(Make(TYPES[dtype]), **sizes)
    torch.cuda.empty_cache()  # compilers run side by side: what the problem was made from would be held in each
    function = compiled(problem.function)
    update = isinstance(problem, Step)
    exact = None if update or request["compile_only"] else truth(problem)
    for mode in request["modes"]:
        if not update:
            cell = contestants(problem, mode, kept, function) + others.contestants(operator.name, sizes, problem, mode)
        elif mode == "full":
            cell = sorted(step_contestants(problem, function), key=lambda c: c.name != "eager")
        else:
            continue
        about = dict(operator=operator.name, size=size, shape=" ".join(f"{k}={v}" for k, v in sizes.items()),
                     dtype=dtype, mode=mode, cache="warm" if size == "small" else "cold", allocator=request["allocator"])
        if request["compile_only"]:
            checked([c for c in cell if c.name not in ("tigon", "eager")], (), about)
            continue
        present = checked(cell, exact and exact[mode], about)
        memory = mode == "full" and size == "large" and (device == "cuda" or not kept)
        measure(present, clock, QUICK if request["quick"] else PACE[device][size], TOLERANCE[TYPES[dtype]], about, memory,
                lambda ms, mode=mode: rate(problem, mode, ms))


def settings(device: str) -> dict:
    """What the page says of the machine."""
    if device == "cuda":
        return dict(machine=torch.cuda.get_device_name(), cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version())
    return dict(machine=processor(), threads=torch.get_num_threads(), openmp=openmp_libraries())


def main() -> None:
    request = json.loads(sys.argv[1])
    device, allocator = request["device"], request["allocator"]
    begin, before = time.monotonic(), seconds_of_others()
    torch.set_num_threads(request["threads"])
    others = Rivals() if device == "cuda" else OneDNN(os.path.join(request["build"], "libpeers_onednn.so"))
    clock = None if request["compile_only"] else (PROCESS if request["clock"] == "process" else CLOCKS[device])()

    def emit_settings() -> None:
        emit(**settings(device), torch=torch.__version__, tigon=f"Tigon {tigon.__version__}, level {tigon.cpu_level()}", missing=others.missing,
             others=(seconds_of_others() - before) / (time.monotonic() - begin),
             cold_bytes=clock.flush.numel() * 4, allocator=allocator,
             environment={k: v for k, v in sorted(os.environ.items()) if re.match(r"MALLOC_|OMP_|GOMP_|KMP_|MKL_|TIGON_", k)})

    if clock:
        emit_settings()  # so that what has been measured makes a page if this process is ended
    for name in request["ops"]:
        for size in (size for size in request["sizes"] if size in OPERATORS[name].sizes[device]):
            for dtype in request["dtypes"]:
                try:
                    compare(OPERATORS[name], size, dtype, request, others, clock)
                except torch.OutOfMemoryError as error:
                    emit(operator=name, size=size, dtype=dtype, left_out=size, why=str(error).split(". ")[0])
                tigon.workspace_trim()
                gc.collect()
                torch.cuda.empty_cache()
        emit(family=name, allocator=allocator, memory_bound=OPERATORS[name].memory_bound, note=OPERATORS[name].note)
    if clock:
        emit_settings()


if __name__ == "__main__":
    main()
