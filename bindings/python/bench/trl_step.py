"""A training step of TRL's DPO and GRPO trainers, without generation: as TRL has it, with Liger-Kernel's layers (on a card), and with Tigon's.

    PYTHONPATH=build/python python bindings/python/bench/trl_step.py --device cuda --model 1b --batch 8 --length 1024
    PYTHONPATH=build/python python bindings/python/bench/trl_step.py --layers 2 --batch 2 --length 64        # on the CPU

A batch is of so many preferences, which are twice as many sequences, or completions; a quarter of a sequence is the prompt. GRPO is given a
batch that it has generated and scored. Everything else is Trainer's own, with a model and an optimizer's state in bf16 and TRL's settings:
from the start of a step to its end, of which the least counts. Each measurement is a process of its own, as in step.py.
"""
import argparse
import json
import subprocess
import sys
import tempfile
import time

import torch
from step import Card, Host, arguments, make_model

WORDS = [f"w{i}" for i in range(60)]


def with_liger():
    return {"use_liger_kernel": True}


def with_tigon():
    import tigon.transformers

    tigon.transformers.install()
    return {"use_liger_kernel": True, "liger_kernel_config": {"linear": True}}


VARIANTS = {"trl": dict, "liger": with_liger, "tigon": with_tigon}


def policy(options):
    return make_model(options, torch.bfloat16, pad_token_id=0)


def make_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def text(words, random):
    return " ".join(WORDS[i] for i in torch.randint(len(WORDS), (words,), generator=random))


def common_of(options):
    common = {"per_device_train_batch_size": options.batch, "max_steps": options.warmup + options.steps, "report_to": [], "logging_steps": 10**6}
    common.update(save_strategy="no", disable_tqdm=True, gradient_checkpointing=options.checkpointing, use_cpu=options.device == "cpu")
    return {**common, **VARIANTS[options.variant]()}


def dpo(options, folder):
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    prompt, random = options.length // 4, torch.Generator().manual_seed(1)
    lengths = {"prompt": prompt, "chosen": options.length - prompt - 1, "rejected": options.length - prompt - 1}  # and the end of a sequence
    data = Dataset.from_list([{name: text(n, random) for name, n in lengths.items()} for _ in range(options.batch)])
    reference = policy(options)
    if options.variant == "liger":  # TRL hands it to nobody's patch
        from liger_kernel.transformers import _apply_liger_kernel_to_instance

        _apply_liger_kernel_to_instance(reference, fused_linear_cross_entropy=False)
    arguments = DPOConfig(folder, max_length=options.length, **common_of(options))
    return DPOTrainer(policy(options), reference, arguments, train_dataset=data, processing_class=make_tokenizer())


def grpo(options, folder):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    prompt, random = options.length // 4, torch.Generator().manual_seed(1)
    tokens = {"prompt": (options.batch, prompt), "completion": (options.batch, options.length - prompt)}
    completed = torch.tensor(float(options.batch * (options.length - prompt)))
    batch = {"advantages": torch.randn(options.batch, generator=random), "num_items_in_batch": completed}
    for name, shape in tokens.items():
        batch[f"{name}_ids"] = torch.randint(3, len(WORDS), shape, generator=random)
        batch[f"{name}_mask"] = torch.ones(shape, dtype=torch.int64)
    batch = {name: tensor.to(options.device) for name, tensor in batch.items()}

    class Generated(GRPOTrainer):
        def _prepare_inputs(self, unused):
            return batch

    data = Dataset.from_list([{"prompt": text(4, random)} for _ in range(options.batch)])
    arguments = GRPOConfig(folder, num_generations=2, max_completion_length=tokens["completion"][1], **common_of(options))
    return Generated(policy(options), lambda completions, **unused: [0.0] * len(completions), arguments, train_dataset=data,
                     processing_class=make_tokenizer())


TRAINERS = {"DPO": dpo, "GRPO": grpo}


def timed(trainer, options):
    """Seconds of each step, and the most memory of those after the first ones."""
    from transformers import TrainerCallback

    device, times = Card() if options.device == "cuda" else Host(), []

    class Clock(TrainerCallback):
        def on_step_begin(self, *unused, **ignored):
            if len(times) == options.warmup:
                device.forget_peak()
            device.wait()
            times.append(-time.perf_counter())

        def on_step_end(self, *unused, **ignored):
            device.wait()
            times[-1] += time.perf_counter()

    trainer.add_callback(Clock())
    loss = trainer.train().training_loss
    return {"seconds": min(times[options.warmup:]), "memory": device.peak(), "loss": loss}


def child(trainer, variant, options):
    """What a process of its own measures, None where it fails."""
    command = [sys.executable, __file__, "--trainers", trainer, "--variant", variant, *["--checkpointing"] * options.checkpointing]
    for name in ("device", "model", "layers", "batch", "length", "steps", "warmup"):
        command += [f"--{name}", str(getattr(options, name))]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return json.loads(process.stdout.splitlines()[-1]) if process.returncode == 0 else None


def compare(trainer, options):
    variants = options.variants.split(",")
    rounds = [{v: child(trainer, v, options) for v in variants} for _ in range(options.rounds)]
    base = None
    for variant in variants:
        found = [r[variant] for r in rounds if r[variant]]
        if not found:
            print(f"{trainer:5}{variant:6} fails", flush=True)
            continue
        seconds, memory = (min(r[name] for r in found) for name in ("seconds", "memory"))
        base = base or (variant, seconds, memory)
        beside = f"{base[1] / seconds:5.2f} x {base[0]}"
        if base[2]:  # none where a warm step finds all its memory kept
            beside += f"   {memory / base[2]:5.2f} of its memory"
        print(f"{trainer:5}{variant:6} {seconds:8.3f} s   {memory:7.0f} MiB   loss {found[0]['loss']:.4f}   {beside}", flush=True)


def main():
    parser = arguments(__doc__, device="cpu", variants="trl,tigon", batch=8, length=1024, steps=5, warmup=3, rounds=1)
    parser.add_argument("--trainers", default="DPO,GRPO")
    parser.add_argument("--checkpointing", action="store_true", help="gradient checkpointing, which TRL has by default")
    options = parser.parse_args()
    if options.variant:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(timed(TRAINERS[options.trainers](options, folder), options)))
        return
    for trainer in options.trainers.split(","):
        compare(trainer, options)


if __name__ == "__main__":
    main()
