"""How a run is timed and what memory it takes: by the host on processors, by the card's events on a GPU."""

import ctypes
import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch


LEAST_WAIT, MOST_WAIT = 1 << 20, 1 << 24  # cycles of the card, half a millisecond to eight


def last_cache_bytes() -> int:
    """Of the largest cache, 32 MiB where Linux does not tell."""
    files = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    return max((int(f.read_text().strip().removesuffix("K")) << 10 for f in files), default=32 << 20)


def resident(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


class Host:
    """Cold: a buffer larger than the cache is rewritten before each timed run. Warm: a run of the same contestant comes right before it."""

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns):
        self.now = now
        self.flush = torch.zeros(2 * last_cache_bytes() // 4)

    def milliseconds(self, prepare: Callable, run: Callable, cold: bool) -> float:
        if not cold:
            prepare()
            run()
        prepare()
        if cold:
            self.flush.add_(1)
        begin = self.now()
        run()
        return (self.now() - begin) / 1e6

    def peak(self, run: Callable) -> tuple[int, object]:
        """Bytes by which a run grows the process at its peak, and what it returns."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before = resident("VmRSS")
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")  # begins to count VmHWM anew
        handed = run()
        return resident("VmHWM") - before, handed


class Card:
    """Cold: by events around the run, behind a reading of 1 GiB, which empties L2, and behind a wait in which the host puts the whole run
    in the queue, whatever Python costs. Warm: what the host takes to put a run in an empty queue."""

    def __init__(self):
        self.cycles = LEAST_WAIT
        self.flush = torch.ones(1 << 28, device="cuda")
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def milliseconds(self, prepare: Callable, run: Callable, cold: bool) -> float:
        prepare()
        if not cold:
            torch.cuda.synchronize()
            begin = time.perf_counter_ns()
            run()
            took = (time.perf_counter_ns() - begin) / 1e6
            torch.cuda.synchronize()
            return took
        while not self.in_time(run) and self.cycles < MOST_WAIT:
            self.cycles *= 2
            prepare()
        return self.begin.elapsed_time(self.end)

    def in_time(self, run: Callable) -> bool:
        """A run between the events, if the host was through with it before the card began."""
        torch.cuda._sleep(self.cycles)
        self.flush.sum()
        self.begin.record()
        run()
        self.end.record()
        in_time = not self.begin.query()
        torch.cuda.synchronize()
        return in_time

    def peak(self, run: Callable) -> tuple[int, object]:
        """Bytes that PyTorch's allocator holds at a run's peak more than before, and what it returns. Tigon's are its workspace."""
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        handed = run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before, handed


CLOCKS = {"cpu": Host, "cuda": Card}  # of a device
PROCESS = partial(Host, time.process_time_ns)  # the process's own time, which waits for nobody: of one thread
