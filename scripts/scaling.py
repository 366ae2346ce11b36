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

With `--device cuda` among the options ranks have a card each, up to two are measured, and the model differs in this: a part's buckets are one
transfer; sums are made on the way, so nothing is added in order. With --expert-parallel matrices of experts are not exchanged, and the rows of
tokens cross the link instead, four times a layer; a half of them each time beside products, which must hide it, the other half not; and each
layer waits once for its numbers of rows.
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
WAIT = 50e-6  # of a card for the host that reads numbers of rows: a guess
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}


def run(ranks, program, *arguments):
    command = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run(command + [program, *arguments], env={**os.environ, **ROOT}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command + [program, *arguments])}:\n{done.stderr}")
    return done.stdout + done.stderr


def on_cards(options):
    return "--device" in options and options[options.index("--device") + 1] != "cpu"


def course(build, ranks, options, *more):
    """Seconds and tokens of the median step, and what is printed."""
    threads = max(1, os.cpu_count() // 2) if on_cards(options) else 1
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        text = run(ranks, f"{build}/llama", *options, "--threads", str(threads), "--steps", str(STEPS), "--eval-every", "0", "--eval-windows", "1",
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
        self.cards = on_cards(options)
        self.passes = self.seconds - self.owned
        head = operator(text, "fused_linear_cross_entropy") + operator(text, "embedding")
        self.layer = (self.passes - head) / self.layers
        self.tables = self.table_size(options, text)
        self.rows, self.apart = self.experts(options, text)
        self.add = 0.0 if self.cards else max(0.0, course(build, 1, options, "--accumulate", "2")[0] - 2 * self.passes - self.owned)

    def option(self, options, name):
        shown = subprocess.run([f"{sys.argv[1]}/llama", *options, "--help"], capture_output=True, text=True).stdout
        return int(re.search(rf"--{name} N .*\[(\d+)\]", shown)[1])

    def table_size(self, options, text):
        """The gradients that are ready last: vocabulary times width, by the trainer's own figures."""
        return int(re.search(r"width (\d+)", text)[1]) * self.option(options, "vocab")

    def experts(self, options, text):
        """With --expert-parallel: bytes of the rows of a layer, and the parameters of its experts."""
        if "--expert-parallel" not in options:
            return 0, 0
        width = int(re.search(r"width (\d+)", text)[1])
        rows = self.tokens * self.option(options, "experts-used")
        return rows * width * self.element, 3 * self.option(options, "experts") * self.option(options, "expert-ff") * width

    def step(self, ranks, link):
        """Seconds of a step; `link` tells those of a message of so many bytes, sent and received at the same time."""
        def sent(elements, size):
            return (ranks - 1) * link(elements * size / ranks)

        def buckets(elements):
            if self.cards:
                return [elements]
            return [min(BUCKET, elements - at) for at in range(0, int(elements), BUCKET)]

        layer = (self.parameters - self.tables) / self.layers - self.apart
        end = free = 0.0  # of the backward pass of layers; when the link is free
        for _ in range(self.layers):
            end += self.layer * 2 / 3
            for bucket in buckets(layer):
                free = max(free, end) + sent(bucket, 4)
        free = max(free, end) + sum(sent(bucket, 4) for bucket in buckets(self.tables))
        shared = sum(sent(bucket, self.element) for bucket in buckets(self.parameters - self.layers * self.apart))
        waits = free - end + shared if ranks > 1 else 0
        if self.apart and ranks > 1:
            half = sent(self.rows / 2, 1)
            beside = self.layer / 6  # the shorter of what a half is hidden by: half of a layer's forward pass
            waits += self.layers * (4 * (half + max(0.0, half - beside)) + WAIT)
        add = self.add if ranks > 1 else 0
        return self.passes + self.owned / ranks + add + waits


def links(build, options):
    """Seconds of messages to the other of two ranks, by bytes; and networks that were not measured."""
    if not on_cards(options):
        points = [(int(size), float(seconds)) for size, seconds in re.findall(r"^(\d+) ([\d.]+)$", run(2, f"{build}/llama_link"), re.M)]
        return points, {"this machine's memory": measured_link(points), "10 Gbit/s, 20 us": network(1.25e9, 20e-6), "100 Gbit/s, 5 us": network(12.5e9, 5e-6)}
    device = options[options.index("--device") + 1]
    found = re.findall(r"^(\d+) ([\d.]+) ([\d.]+)$", run(2, f"{build}/llama_link", device), re.M)
    points = [(int(size) // 2, float(seconds)) for size, seconds, _ in found]  # a half of each sum's numbers goes to the other card
    return points, {"between these cards": measured_link(points), "400 Gbit/s a card, 10 us": network(50e9, 10e-6)}


def main():
    build, options = sys.argv[1], sys.argv[2:]
    points, ways = links(build, options)
    model = Model(build, options)
    pair, tokens, _ = course(build, 2, [*options, "--accumulate", "2"] if on_cards(options) else options)
    size = f"{points[-1][0] / 2**20:.0f} MiB" + ("" if on_cards(options) else " both ways") + " between two ranks"
    print(f"Measured, `{' '.join(options)}`, one {'card' if on_cards(options) else 'thread'} a rank, ms:\n")
    print(f"| step of one rank | its passes | adamw and sum_squares | adding up a micro-batch | {size} | {points[0][0] // 1024} KiB | step of two ranks |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    values = model.seconds, model.passes, model.owned, model.add, points[-1][1], points[0][1], pair
    print("| " + " | ".join(f"{v * 1e3:.4g}" for v in values) + " |\n")
    print("Model (not measured, but for what is above), tokens/s and the part of N times one rank's:\n")
    print("| ranks | " + " | ".join(ways) + " |")
    print("|---:|" + "---:|" * len(ways))
    for ranks in (1, 2, 4, 8, 16, 32, 64):
        cells = []
        for link in ways.values():
            seconds = model.step(ranks, link)
            cells.append(f"{ranks * model.tokens / seconds:.0f}, {model.seconds / seconds:.3f}")
        print(f"| {ranks} | " + " | ".join(cells) + " |")
    predicted = 2 * model.tokens / model.step(2, next(iter(ways.values())))
    print(f"\nTwo ranks: the model says {predicted:.0f} tokens/s, measured are {tokens / pair:.0f}.")


if __name__ == "__main__":
    main()
