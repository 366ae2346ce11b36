#!/usr/bin/env python3
"""How the trainer scales over ranks: measured on this machine up to two, beyond that a model of what was measured. Prints the tables of docs/scaling.md.
    scaling.py BUILD_DIR [OPTIONS OF llama...]

Weak scaling: each rank has one micro-batch in a step, one thread, and a processor for itself. The model of a step of N ranks:
  - the passes of a micro-batch: the step of one rank without adamw and sum_squares. Forward and backward of the layers are divided 1 : 2, and
    the gradients of a layer are ready one layer after the other, then those of norms and tables;
  - the link of a rank takes its buckets one after the other, as soon as they are ready: for each N - 1 messages of an N-th of the bucket, both
    ways at once. What is not done when the backward pass ends is waited for;
  - the sum in order: N gradients of an N-th of the parameters, so the same time for all N; measured as what a second micro-batch adds to a step;
  - adamw and sum_squares of an N-th of the parameters, then the parameters over the link in N - 1 parts.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

BUCKET = 1 << 22  # elements, as in shards.h
STEPS = 5
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}


def run(ranks, program, *arguments):
    command = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(command + [program, *arguments], env={**os.environ, **ROOT}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command + [program, *arguments])}:\n{done.stderr}")
    return done.stdout + done.stderr


def course(build, ranks, options, *more):
    """Seconds and tokens of the median step, and what is printed."""
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        text = run(ranks, f"{build}/llama", *options, "--threads", "1", "--steps", str(STEPS), "--eval-every", "0", "--eval-windows", "1",
                   "--log", log.name, *more)
        steps = [line for line in map(json.loads, open(log.name)) if "loss" in line][1:]
    seconds = statistics.median(s["seconds"] for s in steps)
    return seconds, steps[0]["seconds"] * steps[0]["tokens_per_s"], text


def operator(text, name):
    """Seconds of an operator in a step."""
    return sum(float(ms) for ms in re.findall(rf"^{name}\S* +\S+ +\d+ +([\d.]+) ", text, re.M)) * 1e-3


def measured_link(points):
    """Seconds of a message: on straight lines between those that were measured; small ones as the smallest, large ones in proportion."""
    def seconds(size):
        if size <= points[0][0]:
            return points[0][1]
        for (low, at_low), (high, at_high) in zip(points, points[1:]):
            if size <= high:
                return at_low + (at_high - at_low) * (size - low) / (high - low)
        return points[-1][1] * size / points[-1][0]
    return seconds


def network(rate, latency):
    return lambda size: latency + size / rate


class Model:
    def __init__(self, build, options):
        self.seconds, self.tokens, text = course(build, 1, options, "--profile")
        self.seconds = course(build, 1, options)[0]
        self.layers = int(re.search(r"(\d+) layers", text)[1])
        self.parameters = float(re.search(r"([\d.]+) M parameters", text)[1]) * 1e6
        self.element = 2 if "bf16" in options else 4
        self.owned = operator(text, "adamw") + operator(text, "sum_squares")
        self.passes = self.seconds - self.owned
        head = operator(text, "fused_linear_cross_entropy") + operator(text, "embedding")
        self.layer = (self.passes - head) / self.layers
        self.tables = self.table_size(options, text)
        self.add = max(0.0, course(build, 1, options, "--accumulate", "2")[0] - 2 * self.passes - self.owned)

    def table_size(self, options, text):
        """The gradients that are ready last: vocabulary times width, by the trainer's own figures."""
        width = int(re.search(r"width (\d+)", text)[1])
        shown = subprocess.run([f"{sys.argv[1]}/llama", *options, "--help"], capture_output=True, text=True).stdout
        return width * int(re.search(r"--vocab N .*\[(\d+)\]", shown)[1])

    def step(self, ranks, link):
        """Seconds of a step; `link` tells those of a message of so many bytes, sent and received at the same time."""
        def sent(elements, size):
            return (ranks - 1) * link(elements * size / ranks)

        def buckets(elements):
            return [min(BUCKET, elements - at) for at in range(0, int(elements), BUCKET)]

        layer = (self.parameters - self.tables) / self.layers
        end = free = 0.0  # of the backward pass of layers; when the link is free
        for _ in range(self.layers):
            end += self.layer * 2 / 3
            for bucket in buckets(layer):
                free = max(free, end) + sent(bucket, 4)
        free = max(free, end) + sum(sent(bucket, 4) for bucket in buckets(self.tables))
        shared = sum(sent(bucket, self.element) for bucket in buckets(self.parameters))
        waits = free - end + shared if ranks > 1 else 0
        add = self.add if ranks > 1 else 0
        return self.passes + self.owned / ranks + add + waits


def main():
    build, options = sys.argv[1], sys.argv[2:]
    points = [(int(size), float(seconds)) for size, seconds in re.findall(r"^(\d+) ([\d.]+)$", run(2, f"{build}/llama_link"), re.M)]
    model = Model(build, options)
    pair, tokens, _ = course(build, 2, options)
    print(f"Measured, `{' '.join(options)}`, one thread a rank, ms:\n")
    print("| step of one rank | its passes | adamw and sum_squares | adding up a micro-batch | 16 MiB both ways between two ranks | 1 KiB | step of two ranks |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    values = model.seconds, model.passes, model.owned, model.add, points[-1][1], points[0][1], pair
    print("| " + " | ".join(f"{v * 1e3:.4g}" for v in values) + " |\n")
    print("Model (not measured, but for what is above), tokens/s and the part of N times one rank's:\n")
    links = {"this machine's memory": measured_link(points), "10 Gbit/s, 20 us": network(1.25e9, 20e-6), "100 Gbit/s, 5 us": network(12.5e9, 5e-6)}
    print("| ranks | " + " | ".join(links) + " |")
    print("|---:|" + "---:|" * len(links))
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        cells = []
        for link in links.values():
            seconds = model.step(ranks, link)
            cells.append(f"{ranks * model.tokens / seconds:.0f}, {model.seconds / seconds:.3f}")
        print(f"| {ranks} | " + " | ".join(cells) + " |")
    predicted = 2 * model.tokens / model.step(2, links["this machine's memory"])
    print(f"\nTwo ranks: the model says {predicted:.0f} tokens/s, measured are {tokens / pair:.0f}.")


if __name__ == "__main__":
    main()
