"""TRL's trainers after tigon.transformers.install(), on the CPU, without Liger-Kernel: each beside the same run without Tigon."""
import sys

import pytest
import torch

sys.path[:] = [p for p in sys.path if "liger_kernel" not in p]  # Liger's sources are in the path of other tests here

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import Gemma2Config, Gemma2ForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM  # noqa: E402

import tigon.torch  # noqa: E402
import tigon.transformers  # noqa: E402
from tigon.transformers import _trl  # noqa: E402

# Releases before 1.13 take Liger's losses, and look for them as they are imported.
tigon.transformers.install()
for trainer in ("SFT", "DPO", "KTO", "GRPO", "RLOO", "Distillation"):
    getattr(trl, f"{trainer}Trainer", None)
tigon.transformers.uninstall()

OLD = tuple(map(int, trl.__version__.split(".")[:2])) < (1, 13)
WORDS = [f"w{i}" for i in range(60)]
STEPS = 20


def tokenizer():
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left")


def model(kind="qwen3", seed=7, hidden=64):
    torch.manual_seed(seed)
    sizes = {"vocab_size": 64, "hidden_size": hidden, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes.update(num_key_value_heads=2, head_dim=16, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=None)
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**sizes))
    return Gemma2ForCausalLM(Gemma2Config(**sizes, sliding_window=16, query_pre_attn_scalar=16, attn_implementation="eager"))


def text(random, least=3, most=9):
    return " ".join(WORDS[i] for i in torch.randint(60, (int(torch.randint(least, most, (), generator=random)),), generator=random))


def rows(*names, count=16, **more):
    random = torch.Generator().manual_seed(11)
    return datasets.Dataset.from_list([{n: text(random) for n in names} | {n: f(i) for n, f in more.items()} for i in range(count)])


def reward(completions, **unused):
    """What is near the middle of the vocabulary is liked, and what is long."""
    return [float(sum(int(w[1:]) % 7 for w in text.split() if w in WORDS)) / 10 for text in completions]


GENERATES = {"num_generations": 2, "max_completion_length": 8, "beta": 0.05}
TRAINERS = {
    "SFT": (lambda: {"train_dataset": rows("prompt", "completion")}, {}),
    "SFT-packed": (lambda: {"train_dataset": rows("text")}, {"packing": True, "max_length": 32}),
    "DPO": (lambda: {"train_dataset": rows("prompt", "chosen", "rejected")}, {"beta": 0.3}),
    "KTO": (lambda: {"train_dataset": rows("prompt", "completion", label=lambda i: i % 3 > 0)}, {"beta": 0.3}),
    "GRPO": (lambda: {"train_dataset": rows("prompt"), "reward_funcs": reward}, GENERATES),
    "RLOO": (lambda: {"train_dataset": rows("prompt"), "reward_funcs": reward}, GENERATES),
    "Distillation": (lambda: {"train_dataset": rows("prompt")}, {"max_completion_length": 8, "beta": 0.5, "temperature": 0.9}),
    "Distillation-forward": (lambda: {"train_dataset": rows("prompt")}, {"max_completion_length": 8, "beta": 0.0}),
}


def trained(folder, name, given, **options):
    """The trainer after its steps; `given` are its further arguments."""
    data, settings = TRAINERS[name]
    kind = name.partition("-")[0]
    common = {"max_steps": STEPS, "per_device_train_batch_size": 4, "learning_rate": 3e-4, "logging_steps": 1, "seed": 1, "bf16": False}
    common.update(report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, gradient_checkpointing=False)
    arguments = getattr(trl, f"{kind}Config")(str(folder), **{**common, **settings, **options})
    trainer = getattr(trl, f"{kind}Trainer")(args=arguments, processing_class=tokenizer(), **{**data(), **given})
    torch.manual_seed(2)
    trainer.train()
    return trainer


def counted(function, calls):
    def call(*args, **options):
        calls.append(function)
        return function(*args, **options)

    return call


def logged(trainer, name):
    return torch.tensor([entry[name] for entry in trainer.state.log_history if name in entry])


def assert_same(found, expected, start):
    for name in ("loss", "grad_norm"):
        values = logged(found, name), logged(expected, name)
        assert values[0].numel() == STEPS
        torch.testing.assert_close(*values, rtol=1e-3, atol=3e-4)
    for (name, parameter), other, before in zip(found.model.named_parameters(), expected.model.parameters(), start.parameters()):
        moved = (other - before).norm()
        assert moved > 0 and (parameter - other).norm() <= 2e-2 * moved, (name, (parameter - other).norm() / moved)


def of_liger(trainer):
    """The losses of tigon.liger that the trainer of an older TRL has."""
    return [value for value in vars(trainer).values() if type(value).__module__.startswith("tigon.liger.chunked_loss")]


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("kind", ["qwen3", "gemma2"])
def test_trainer(tmp_path, monkeypatch, name, kind):
    if kind == "gemma2" and name not in ("SFT", "DPO"):
        pytest.skip("the soft cap is one of SFT's and DPO's heads")
    model(kind).save_pretrained(tmp_path / "model")  # trainers load their reference from where the model is
    given = {"model": str(tmp_path / "model")}
    if name.startswith("Distillation"):
        given["teacher_model"] = model(kind, seed=8, hidden=48)
    expected = trained(tmp_path, name, given)
    calls = []
    for owner, function in ((tigon.torch, "fused_linear_logp"), (_trl, "_chunk")):
        monkeypatch.setattr(owner, function, counted(getattr(owner, function), calls))
    tigon.transformers.install()
    try:
        found = trained(tmp_path, name, given, use_liger_kernel=True)
    finally:
        tigon.transformers.uninstall()
    assert "tigon" in tigon.transformers.status(found.model).values()
    frozen = [getattr(found, n, None) for n in ("ref_model", "teacher_model")]
    assert all("tigon" in tigon.transformers.status(m).values() for m in frozen if isinstance(m, torch.nn.Module))
    assert name not in ("DPO", "KTO") or frozen[0] is not None or OLD
    assert OLD and (name[:4] in ("SFT", "SFT-", "RLOO") or of_liger(found)) or len(calls) >= STEPS  # older ones have no such loss
    assert_same(found, expected, model(kind))


def test_adapters(tmp_path):
    """DPO of adapters, whose reference is the model without them."""
    peft = pytest.importorskip("peft")
    given = {"model": model(), "peft_config": peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=True)}
    expected = trained(tmp_path, "DPO", given)
    tigon.transformers.install()
    try:
        found = trained(tmp_path, "DPO", {**given, "model": model()}, use_liger_kernel=True)
    finally:
        tigon.transformers.uninstall()
    assert "tigon" in tigon.transformers.status(found.model).values()
    torch.testing.assert_close(logged(found, "loss"), logged(expected, "loss"), rtol=1e-3, atol=3e-4)
    for (name, parameter), other in zip(found.model.named_parameters(), expected.model.parameters()):
        assert (parameter - other).norm() <= 2e-2 * other.norm() or not other.any(), name
