"""What tigon.transformers puts into a model: gradients with each option, what is kept for backward, and modules that it must leave alone."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402

SIZES = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 64, "pad_token_id": 0}


@pytest.fixture(params=["cpu"] + ["cuda"] * torch.cuda.is_available())
def device(request):
    return request.param


def make(model_type="llama", device="cpu", dtype=torch.float32):
    torch.manual_seed(42)
    config = transformers.AutoConfig.for_model(model_type, **SIZES)
    return transformers.AutoModelForCausalLM.from_config(config).to(device, dtype).train()


def tokens(device="cpu"):
    return torch.randint(SIZES["vocab_size"], (2, 48), generator=torch.Generator().manual_seed(7)).to(device)


def loss_and_gradients_of(model, call):
    model.zero_grad()
    loss = model(**call).loss
    loss.backward()
    return {"loss": loss.detach(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}


def loss_and_gradients(model, ids):
    return loss_and_gradients_of(model, {"input_ids": ids, "labels": ids})


def same(found, expected, tolerance=1e-5):
    assert set(found) == set(expected)
    for name, value in expected.items():
        scale = max(1.0, value.abs().max().item())
        torch.testing.assert_close(found[name], value, atol=tolerance * scale, rtol=10 * tolerance, msg=lambda m: f"{name}: {m}")  # noqa: B023


@pytest.mark.parametrize("options", ({}, {"attention": True, "linear": True}), ids=("usual", "all"))
@pytest.mark.parametrize("model_type", ("llama", "qwen2", "gemma", "phi3"))
def test_gradients(model_type, options, device):
    plain = make(model_type, device)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), **options)
    same(loss_and_gradients(ours, tokens(device)), loss_and_gradients(plain, tokens(device)))


@pytest.mark.parametrize("options", ({}, {"attention": True, "linear": True}), ids=("usual", "all"))
def test_autocast(options, device):
    plain = make(device=device)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), **options)
    with torch.autocast(device, torch.bfloat16):
        found, expected = (loss_and_gradients(model, tokens(device)) for model in (ours, plain))
    assert all(value.dtype == torch.float32 for value in found.values())
    same(found, expected, 2e-2)


def test_one_graph(device):
    plain = make(device=device)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), attention=True, linear=True)
    mlp = torch.compile(ours.model.layers[0].mlp, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 5, SIZES["hidden_size"], device=device, requires_grad=True)
    found, expected = (torch.autograd.grad(f(x).square().sum(), [x, *f.parameters()]) for f in (mlp, plain.model.layers[0].mlp))
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e, atol=1e-5, rtol=1e-4)


def test_of_a_feed_forward_block_only_gate_and_up_are_kept():
    kept = {}

    def keep(t):
        if t.dim() == 3 and t.shape[-1] == SIZES["intermediate_size"]:
            kept[t.data_ptr()] = t
        return t

    ours = tigon.transformers.apply_to(make())
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        ours(input_ids=tokens(), labels=tokens())
    assert len(kept) == 2 * SIZES["num_hidden_layers"]


def test_frozen_weights_have_no_gradient():
    plain = make()
    for module in plain.model.layers:
        module.mlp.requires_grad_(False)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    same(loss_and_gradients(ours, tokens()), loss_and_gradients(plain, tokens()))


@pytest.mark.parametrize("name", ("down_proj", "gate_proj", "post_attention_layernorm"))
def test_hooks_are_called(name):
    """A hook, and a module that is no longer what it was, are seen when the model runs: adapters come after apply_to() too."""
    plain = make()
    models = [plain, tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)]
    for model in models:
        for path, module in model.named_modules():
            if path.endswith(name):
                module.register_forward_hook(lambda module, inputs, output: 2 * output)
    expected, found = (loss_and_gradients(model, tokens()) for model in models)
    same(found, expected)
