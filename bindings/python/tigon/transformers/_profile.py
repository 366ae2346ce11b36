"""What a training step is made of, by PyTorch's profiler: every operator's own time, products, attention and the loss apart, and the time in
which nothing is computed."""
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

PHASES = ("forward", "backward", "optimizer")
GROUPS = ("products", "attention", "loss", "operators", "pytorch", "optimizer", "gaps")
_WORDS = {
    "products": "products of matrices",
    "attention": "attention",
    "loss": "last layer and loss",
    "operators": "Tigon's other operators",
    "pytorch": "PyTorch's other operators",
    "optimizer": "optimizer",
    "gaps": "nothing computed: Python, launches, waiting",
}
_PRODUCTS = ("gemm", "batched_gemm", "grouped_gemm", "mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "_grouped_mm", "mkldnn_linear")
_ATTENTION = ("flash_attention", "scaled_dot_product", "_scaled_dot_product", "_flash_attention", "_efficient_attention", "_fused_sdp")
_LOSSES = ("fused_linear", "cross_entropy", "nll_loss", "_log_softmax", "log_softmax")
_MARK = "tigon.transformers.profile: "


class Profile(Dict[str, Any]):
    """A dict whose str() is a table. Times are seconds of one step.

    device, steps        where, and of how many steps these are means
    step                 a step under the profiler, of which the rest are parts
    unprofiled           a step without the profiler
    groups               {group: seconds}
    rows                 [{group, name, calls, forward, backward, optimizer, seconds}], longest first within a group
    """

    def __str__(self) -> str:
        return "\n".join(_table(self))


def _line(row: Mapping[str, Any], step: float) -> str:
    calls = f"{row['calls']:.4g}" if row["calls"] else ""
    parts = " ".join(f"{1e3 * row[p]:10.2f}" if row[p] else f"{'–':>10}" for p in PHASES)
    return f"{row['name'][:44]:44} {calls:>6} {parts} {1e3 * row['seconds']:10.2f} {100 * row['seconds'] / step:6.1f}"


def _sum(name: str, rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    return {"name": name, "calls": 0, **{p: sum(r[p] for r in rows) for p in (*PHASES, "seconds")}}


def _table(found: Profile, most: int = 8) -> List[str]:
    step = found["step"]
    lines = [
        f"one training step on {found['device']}: {1e3 * step:.2f} ms under the profiler, {1e3 * found['unprofiled']:.2f} ms without "
        f"(means of {found['steps']})",
        f"{'ms of a step':44} {'calls':>6} {'forward':>10} {'backward':>10} {'optimizer':>10} {'together':>10} {'%':>6}",
    ]
    for group in GROUPS:
        rows = [r for r in found["rows"] if r["group"] == group]
        if not rows:
            continue
        lines.append(_line(_sum(_WORDS[group], rows), step))
        if group != "gaps":
            shown = rows[:most] + ([_sum(f"{len(rows) - most} more", rows[most:])] if len(rows) > most else [])
            lines += [_line({**r, "name": "  " + r["name"]}, step) for r in shown]
    return lines


def _group_of(name: str) -> Optional[Tuple[str, str]]:
    """(group, name) of an operator; None for what is not one: a range, or a node of the gradient."""
    space, _, operator = name.partition("::")
    if space not in ("tigon", "aten") or not operator:
        return None
    family = operator
    for end in ("_forward", "_backward"):
        family = family[: -len(end)] if family.endswith(end) else family
    for group, names in (("attention", _ATTENTION), ("loss", _LOSSES)):
        if family.startswith(names):
            return group, f"{family} ({space})"
    if family.rstrip("_") in _PRODUCTS:
        return "products", f"{family} ({space})"
    return ("operators", family) if space == "tigon" else ("pytorch", operator)


def _owner(event) -> Optional[Tuple[str, str]]:
    """The operator whose time this event is: the outermost one of Tigon, attention or a loss that it is part of; else itself, or the nearest
    operator around it."""
    chain = []
    while event is not None:
        group = _group_of(event.name)
        if group:
            chain.append((event.name, group))
        event = event.cpu_parent
    for name, group in reversed(chain):
        if name.startswith("tigon::") or group[0] in ("attention", "loss", "products"):
            return group
    return chain[0][1] if chain else None


def _union(spans: List[Tuple[float, float]]) -> float:
    """The time that spans cover together."""
    covered, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        covered += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return covered


def _phases(events) -> List[Tuple[str, float, float]]:
    """(phase, start, end) of all steps."""
    found = []
    for event in events:
        if event.name.startswith(_MARK) and event.device_type.name == "CPU":
            found.append((event.name[len(_MARK):], event.time_range.start, event.time_range.end))
    return sorted(found, key=lambda f: f[1])


def _collect(events, on_card: bool, steps: int) -> Tuple[Dict[Tuple[str, str], Dict[str, float]], float]:
    """Seconds and calls by (group, name), and seconds in which something was computed."""
    phases = _phases(events)
    table: Dict[Tuple[str, str], Dict[str, float]] = {}
    busy = []
    for event in events:
        start = event.time_range.start
        if on_card and event.device_type.name != "CPU":
            if not event.name.startswith(_MARK) and not event.is_user_annotation:
                busy.append((start, event.time_range.end))
            continue
        phase = next((p for p, first, last in phases if first <= start < last), None)
        owner = _owner(event)
        if phase is None or owner is None:
            continue
        if not on_card:
            busy.append((start, event.time_range.end))
        key = ("optimizer", owner[1]) if phase == "optimizer" else owner
        row = table.setdefault(key, {"calls": 0.0, **dict.fromkeys(PHASES, 0.0)})
        spent = event.self_device_time_total if on_card else event.self_cpu_time_total
        row[phase] += spent / 1e6 / steps
        above = event.cpu_parent
        if above is None or _owner(above) != owner:
            row["calls"] += 1 / steps
    return table, _union(busy) / 1e6 / steps


def _step(model, batch, optimizer, mark) -> None:
    with mark("forward"):
        outputs = model(**batch) if isinstance(batch, Mapping) else batch(model)
        loss = getattr(outputs, "loss", None)
        loss = loss if loss is not None else outputs if hasattr(outputs, "backward") else outputs[0]
        if loss is None or not hasattr(loss, "backward") or loss.numel() != 1:
            raise ValueError("there is no loss: the batch needs labels, or be a function of the model that gives a loss")
    with mark("backward"):
        loss.backward()
    if optimizer is not None:
        with mark("optimizer"):
            optimizer.step()
    model.zero_grad(set_to_none=True)


def _timed(run: Callable[[], None], steps: int, wait: Callable[[], None]) -> float:
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        run()
    wait()
    return (time.perf_counter() - start) / steps


def profile(model: Any, batch: Union[Mapping[str, Any], Callable[[Any], Any]], optimizer: Any = None, steps: int = 3,
            warmup: int = 2) -> Profile:
    """What a training step of this model is made of. `batch`: the arguments of the model, labels among them, or a function that takes the
    model and gives a loss. With an optimizer its step is part of it, and changes the parameters; gradients are None afterwards. On a card,
    times are those of its kernels, and gaps the time in which it waits; elsewhere those of operators, each without those that it calls.

        print(tigon.transformers.profile(model, {"input_ids": ids, "labels": ids}))
    """
    import contextlib

    import torch
    from torch.profiler import ProfilerActivity, record_function

    device = next(model.parameters()).device
    on_card = device.type == "cuda"
    wait = (lambda: torch.cuda.synchronize(device)) if on_card else (lambda: None)
    for _ in range(max(warmup, 1)):
        _step(model, batch, optimizer, lambda name: contextlib.nullcontext())
    unprofiled = _timed(lambda: _step(model, batch, optimizer, lambda name: contextlib.nullcontext()), steps, wait)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_card
    with torch.profiler.profile(activities=activities) as profiler:
        step = _timed(lambda: _step(model, batch, optimizer, lambda name: record_function(_MARK + name)), steps, wait)
    table, busy = _collect(profiler.events(), on_card, steps)
    rows: List[Dict[str, Any]] = [{"group": group, "name": name, **row, "seconds": sum(row[p] for p in PHASES)} for (group, name), row in table.items()]
    rows.append({"group": "gaps", "name": "gaps", "calls": 0.0, **dict.fromkeys(PHASES, 0.0), "seconds": max(0.0, step - busy)})
    rows.sort(key=lambda r: (GROUPS.index(r["group"]), -r["seconds"]))
    groups = {g: sum(r["seconds"] for r in rows if r["group"] == g) for g in GROUPS}
    return Profile(device=str(device), steps=steps, step=step, unprofiled=unprofiled, groups=groups, rows=rows)
