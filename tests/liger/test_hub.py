"""The kernel of Hugging Face's `kernels`, read from a local folder: loss and gradients beside a model without it. TIGON_HUB_KERNEL names the
folder (hub.sh)."""
import copy
import json
import os
from pathlib import Path

import pytest
import torch

kernels = pytest.importorskip("kernels")
transformers = pytest.importorskip("transformers")
FOLDER = Path(os.environ["TIGON_HUB_KERNEL"])
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": 128, "pad_token_id": 0}
MODELS = {
    "Llama": ({}, {"rms_norm", "rope", "swiglu"}),
    "Qwen3": ({}, {"rms_norm", "rope", "swiglu"}),
    "Gemma": ({}, {"rms_norm", "rope", "geglu"}),
    "Gemma2": ({}, {"rms_norm", "rope", "geglu"}),
    "Mixtral": ({"num_local_experts": 4}, {"rms_norm", "rope", "fused_moe"}),
    "Qwen3Moe": ({"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}, {"rms_norm", "rope", "fused_moe"}),
}
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.fixture(scope="module")
def kernel():
    return kernels.get_local_kernel(FOLDER)


def make(name, device="cpu", dtype=torch.float32):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **MODELS[name][0])
    return getattr(transformers, f"{name}ForCausalLM")(config).to(device, dtype).train()


def step(model):
    ids = torch.randint(1, SIZES["vocab_size"], (2, 24), generator=torch.Generator().manual_seed(3)).to(model.device)
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    model.zero_grad()
    loss = model(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100)).loss
    loss.backward()
    return {"loss": loss.detach(), **{n: p.grad for n, p in model.named_parameters() if p.grad is not None}}


def check(found, expected, tolerance=1e-5):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        torch.testing.assert_close(found[name], value, rtol=0, atol=tolerance * value.abs().max().item(), msg=name)


def ran(model, kernel):
    with torch.profiler.profile() as profiler:
        step(model)
    space = f"{kernel.__name__}::"
    return {e.name[len(space):].rsplit("_", 1)[0] for e in profiler.events() if e.name.startswith(space) and e.name.endswith("_backward")}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MODELS)
def test_used_model_is_the_same(kernel, name, device):
    model = make(name, device)
    expected = {n: t.clone() for n, t in step(copy.deepcopy(model)).items()}
    assert kernel.use(model) is model
    check(step(model), expected)
    assert MODELS[name][1] | {"cross_entropy", "flash_attention"} <= ran(model, kernel)


@pytest.mark.parametrize("name", ["Llama", "Qwen3", "Gemma"])
def test_use_kernels(kernel, name, tmp_path):
    """What Trainer's users write."""
    make(name).save_pretrained(tmp_path)
    expected = step(transformers.AutoModelForCausalLM.from_pretrained(tmp_path).train())
    kernel.register()
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, use_kernels=True, attn_implementation="tigon").train()
    check(step(model), expected)
    assert {"rope", "flash_attention"} | ({"rms_norm"} if name != "Gemma" else set()) <= ran(model, kernel)


@pytest.mark.parametrize("name", ["Llama", "Gemma"])
def test_compiled(kernel, name):
    model = make(name)
    expected = {n: t.clone() for n, t in step(model).items()}
    compiled = torch.compile(kernel.use(model), backend="aot_eager")
    found = step(compiled)
    check({n.removeprefix("_orig_mod."): t for n, t in found.items()}, expected)


def test_bfloat16(kernel):
    model = make("Llama", dtype=torch.bfloat16)
    expected = {n: t.clone() for n, t in step(copy.deepcopy(model)).items()}
    check(step(kernel.use(model)), expected, tolerance=0.05)


def test_float64_runs_as_it_was(kernel):
    """What no operator takes."""
    model = make("Llama", dtype=torch.float64)
    expected = {n: t.clone() for n, t in step(copy.deepcopy(model)).items()}
    check(step(kernel.use(model)), expected, tolerance=1e-12)


def test_loss(kernel):
    from transformers.loss.loss_utils import ForCausalLMLoss

    logits = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(1), requires_grad=True)
    labels = torch.randint(32, (2, 9), generator=torch.Generator().manual_seed(2))
    labels[0, 3] = -100
    for options in ({}, {"num_items_in_batch": 7}, {"num_items_in_batch": torch.tensor(7)}, {"shift_labels": labels}):
        losses = []
        for function in (ForCausalLMLoss, kernel.ForCausalLMLoss):
            loss = function(logits, labels, 32, **options)
            losses += [loss, *torch.autograd.grad(loss, logits)]
        torch.testing.assert_close(losses[2:], losses[:2], rtol=1e-5, atol=1e-7)
    nothing = torch.full_like(labels, -100)
    assert kernel.ForCausalLMLoss(logits, nothing, 32).isnan()


def test_beside_an_installed_tigon(kernel):
    """Two packages, two namespaces of operators, two libraries."""
    import tigon.torch

    x, weight = torch.randn(4, 8), torch.randn(8)
    torch.testing.assert_close(kernel.torch.rms_norm(x, weight), tigon.torch.rms_norm(x, weight), rtol=0, atol=0)
    assert kernel.torch is not tigon.torch


def test_rotation_of_apply_to(monkeypatch):
    """transformers' function is a module here. apply_to() looks at the function in it, and another forward that is put there runs."""
    import tigon.transformers

    plain = make("Llama")
    model = tigon.transformers.apply_to(copy.deepcopy(plain))
    assert tigon.transformers.status(model)["model.layers.0.self_attn"] == "tigon"
    check(step(model), step(plain), 1e-4)
    function, calls = transformers.models.llama.modeling_llama.apply_rotary_pos_emb, []
    assert isinstance(function, torch.nn.Module)
    own = function.forward
    monkeypatch.setattr(function, "forward", lambda *args, **options: calls.append(1) or own(*args, **options), raising=False)
    step(model)
    assert len(calls) == 2


def test_folder():
    """A variant's metadata, and nothing that imports an installed `tigon`."""
    (variant,) = (FOLDER / "build").iterdir()
    assert variant.name.startswith("torch-stable-abi")
    metadata = json.loads((variant / "metadata.json").read_text())
    assert metadata["name"] == "tigon" and metadata["python-depends"] == []
    for path in variant.rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not line.strip().startswith(("import tigon", "from tigon")), f"{path}: {line}"
