#!/usr/bin/env python3
"""Writes docs/results/transformers.md: tiny random models of every model type, what of them runs on Tigon, and their loss and gradients
beside the same models as transformers made them. Needs torch and transformers, and Tigon's package on PYTHONPATH:

    PYTHONPATH=build/python python3 scripts/model_table.py [--output docs/results/transformers.md] [TYPE...]
"""
import argparse
import collections
import copy
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "liger"))
import tiny  # noqa: E402

import tigon.transformers  # noqa: E402
from tigon.transformers import _attention, _blocks, _experts, _loss, _mixtures, _models, _norms, _rotary  # noqa: E402
from tigon.transformers._classes import Part  # noqa: E402

COLUMNS = ("norm", "rope", "mlp", "experts", "attention", "loss")
OF_OPTION = {"rms_norm": "norm", "rope": "rope", "mlp": "mlp", "fused_linear_cross_entropy": "loss"}
WHO_SAYS = ((_loss.recognise, "loss"), (_experts.recognise, "experts"), (_mixtures.recognise, "experts"), (_norms.recognise_layer, "norm"),
            (_norms.recognise, "norm"), (_rotary.recognise, "rope"), (_blocks.recognise, "mlp"))
HEADER = """# Models of Hugging Face

Tiny models with random weights of every model type (`tests/liger/tiny.py`), trained for one step on a CPU. `tigon`: all of the
model's modules of this kind run on Tigon after `apply_to()`; `2 of 3`: so many of them, and a note says why the others do not, in the
words of `tigon.transformers.status(model)`; –: the model has no such module that is known. Attention is counted by its calls. The last
columns are the largest difference from the same model as transformers made it, in f32: of the loss, beside the loss, and of a gradient of
any parameter, beside the largest element of that gradient or a thousandth. In bf16, with the same weights and inputs rounded, what
transformers' own model differs by in bf16 stands behind, in parentheses. In a mixture one token whose scores of two
experts lie closer than their rounding, and which goes to the other one, makes a large difference: in `qwen3_next` on Tigon, in `glm4_moe` without.

Written by `PYTHONPATH=build/python python3 scripts/model_table.py`.
"""


def column_of(module):
    """Of which kind a module is that status() names."""
    part = _models.find(module)
    if isinstance(part, Part):
        return "experts" if part.make in ("experts", "mixture") else OF_OPTION[part.option]
    return next(column for recognise, column in WHO_SAYS if isinstance(recognise(module), str))


def counted_attention(model, given):
    """(calls on Tigon, calls of PyTorch's) in a step."""
    calls = collections.Counter()
    run, of_pytorch = _attention._Call.run, _attention._of_pytorch

    def count(name, function):
        def counting(*args):
            calls[name] += 1
            return function(*args)
        return counting

    _attention._Call.run, _attention._of_pytorch = count("tigon", run), count("pytorch", of_pytorch)
    try:
        tiny.loss_of(model, given)
    finally:
        _attention._Call.run, _attention._of_pytorch = run, of_pytorch
    return calls["tigon"], calls["pytorch"]


def cell(good, others, notes):
    """Words for so many modules on Tigon, and the reasons of the others."""
    if not others:
        return "tigon" if good else "–"
    marks = ", ".join(str(notes.setdefault(words, len(notes) + 1)) for words in sorted(set(others)))
    return f"{good} of {good + len(others)} ({marks})"


def of_modules(model, notes):
    found = {column: [] for column in COLUMNS}
    for name, words in tigon.transformers.status(model).items():
        module = None if name == "attention" else model.get_submodule(name)
        if module is None or isinstance(module, torch.nn.Embedding):  # attention is counted below, and embeddings have no column
            continue
        found[column_of(module)].append(words)
    return {column: cell(all_words.count("tigon"), [w.replace("as it was: ", "") for w in all_words if w != "tigon"], notes)
            for column, all_words in found.items()}


def differences(found, expected):
    """(of the loss, of the gradients)"""
    if set(found) != set(expected):
        return float("inf"), float("inf")
    loss = (found["loss"].float() - expected["loss"].float()).abs().item() / max(1e-3, expected["loss"].float().abs().item())
    worst = 0.0
    for name in set(expected) - {"loss"}:
        e = expected[name].float()
        worst = max(worst, (found[name].float() - e).abs().max().item() / max(1e-3, e.abs().max().item()))
    return loss, worst


def row(model_type, notes):
    plain = tiny.make(model_type)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    cells = of_modules(ours, notes)
    good, others = counted_attention(ours, tiny.batch(plain))
    why = "the library does not take this call, which is PyTorch's"
    if good + others:
        cells["attention"] = cell(good, [why] * others, notes)
    elif hasattr(plain.config, "_attn_implementation"):
        cells["attention"] = cell(0, ["its attention is the model's own, and so are its masks"], notes)
    return [f"`{model_type}`", *(cells[c] for c in COLUMNS), *in_f32(plain, ours), *in_bf16(plain, ours)]


def in_f32(plain, ours):
    given = tiny.batch(plain)
    return [f"{n:.0e}" for n in differences(*(tiny.loss_and_gradients(model, given) for model in (ours, plain)))]


def in_bf16(plain, ours):
    given = tiny.batch(plain, dtype=torch.bfloat16)
    ours, theirs = (differences_of(copy.deepcopy(model).bfloat16(), plain, given) for model in (ours, plain))
    return [f"{mine:.0e} ({other:.0e})" for mine, other in zip(ours, theirs)]


def differences_of(model, plain, given):
    """Of a model in bf16 from one of the same weights in f32."""
    exact = copy.deepcopy(plain).bfloat16().float()
    wide = {name: t.float() if t.is_floating_point() else t for name, t in given.items()}
    return differences(tiny.loss_and_gradients(model, given), tiny.loss_and_gradients(exact, wide))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=str(ROOT / "docs" / "results" / "transformers.md"))
    parser.add_argument("types", nargs="*", default=list(tiny.TYPES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    notes = {}
    heads = ["model type", *COLUMNS, "loss, f32", "gradients, f32", "loss, bf16", "gradients, bf16"]
    lines = [HEADER, "| " + " | ".join(heads) + " |", "|---|" + "---|" * len(COLUMNS) + "---:|" * 4]
    lines += ["| " + " | ".join(row(t, notes)) + " |" for t in arguments.types]
    lines += [f"| `{t}` |" + f" {words} |" + " – |" * 9 for t, words in tiny.ABSENT.items()]
    lines += ["", *(f"{number}. {words}" for words, number in notes.items()), ""]
    pathlib.Path(arguments.output).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
