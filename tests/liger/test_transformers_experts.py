"""Experts of mixtures on fused_moe, as experts_implementation="tigon" of transformers and by apply_to(), beside transformers' own loop."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")
moe = pytest.importorskip("transformers.integrations.moe")
import tigon.transformers  # noqa: E402
from tigon.transformers import _experts  # noqa: E402

tigon.transformers.register()

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 96, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FEW = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24}
DEEPSEEK = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1, "first_k_dense_replace": 1,
            "n_group": 4, "topk_group": 2, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
            "v_head_dim": 8, "num_key_value_heads": 4}
MODELS = {
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": FEW,
    "qwen3_moe": {**FEW, "norm_topk_prob": True},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    "deepseek_v2": {**DEEPSEEK, "topk_method": "group_limited_greedy"},
    "deepseek_v3": DEEPSEEK,
    "glm4_moe": {**DEEPSEEK, "head_dim": 8},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
}


def make(model_type, implementation="eager", **more):
    torch.manual_seed(42)
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **MODELS[model_type], **more})
    config._experts_implementation = implementation
    model = transformers.AutoModelForCausalLM.from_config(config)
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    return model.train()


IDS = torch.randint(3, 96, (2, 10), generator=torch.Generator().manual_seed(7))


def logits_and_gradients(model):
    model.zero_grad()
    logits = model(input_ids=IDS).logits
    logits.float().square().mean().backward()
    return {"logits": logits.detach(), **{n: p.grad for n, p in model.named_parameters() if p.grad is not None}}


def same(found, expected, tolerance=1e-4):
    assert set(found) == set(expected)
    for name, value in expected.items():
        scale = max(1e-3, value.abs().max().item())
        torch.testing.assert_close(found[name], value, atol=tolerance * scale, rtol=tolerance, msg=lambda m: f"{name}: {m}")  # noqa: B023


@pytest.fixture
def calls(monkeypatch):
    """How often experts ran on Tigon."""
    count, compute = [], _experts.compute

    def counted(*args):
        y = compute(*args)
        count.append(y is not None)
        return y
    monkeypatch.setattr(_experts, "compute", counted)
    return count


@pytest.mark.parametrize("model_type", MODELS)
def test_an_implementation_of_transformers(model_type, calls):
    plain = make(model_type)
    ours = copy.deepcopy(plain)
    ours.set_experts_implementation("tigon")
    same(logits_and_gradients(ours), logits_and_gradients(plain))
    assert calls and all(calls)
    assert set(words for name, words in tigon.transformers.status(ours).items() if name.endswith(".experts")) == {"tigon"}


@pytest.mark.parametrize("model_type", [m for m in MODELS if m in tigon.transformers.MODEL_TYPES])
def test_apply_to(model_type):
    plain = make(model_type)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    words = tigon.transformers.status(ours)
    assert all(said == "tigon" for name, said in words.items() if name.endswith("experts"))
    same(logits_and_gradients(ours), logits_and_gradients(plain))
    tigon.transformers.apply_to(ours, mlp=False)
    words = tigon.transformers.status(ours)
    assert all(said == "as it was: tigon was not asked for" for name, said in words.items() if name.endswith("experts"))


def test_one_graph_of_a_layer():
    model = make("qwen3_moe", "tigon")
    layer = model.model.layers[0].mlp.experts
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    index, weights = torch.tensor([[0, 1], [2, 2], [3, 4]]), torch.rand(3, 2)
    x = torch.randn(3, 32, requires_grad=True)
    found, expected = (torch.autograd.grad(f(x, index, weights).square().sum(), [x, *layer.parameters()]) for f in (compiled, layer))
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_autocast():
    plain = make("qwen3_moe", "grouped_mm")
    ours = copy.deepcopy(plain)
    ours.set_experts_implementation("tigon")
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = logits_and_gradients(ours), logits_and_gradients(plain)
    assert all(value.dtype == torch.float32 for name, value in found.items() if name != "logits")
    for name, value in expected.items():
        assert (found[name].float() - value.float()).norm() <= 0.1 * value.float().norm() + 1e-6, name


def test_an_index_of_all_experts_is_none():
    experts = make("qwen3_moe", "tigon").model.layers[0].mlp.experts
    index, weights, x = torch.tensor([[0, 4], [4, 4]]), torch.rand(2, 2), torch.randn(2, 32)
    weights[index == 4] = 0
    y = experts(x, index, weights)
    assert not y[1].any()
    torch.testing.assert_close(y, moe.grouped_mm_experts_forward(experts, x, index, weights), atol=1e-5, rtol=1e-4)


def test_words_of_what_stays_as_it_was():
    def said(change):
        model = make("qwen3_moe", "tigon")
        experts = model.model.layers[0].mlp.experts
        change(experts)
        words = tigon.transformers.status(model)["model.layers.0.mlp.experts"]
        expected = moe.grouped_mm_experts_forward(experts, *given) if experts.has_gate else None
        if expected is not None:
            torch.testing.assert_close(experts(*given), expected)
        return words
    given = torch.randn(3, 32), torch.tensor([[0, 1], [2, 3], [3, 0]]), torch.rand(3, 2)
    assert said(lambda e: setattr(e, "has_gate", False)) == "as it was: they have no gate"
    assert said(lambda e: setattr(e, "has_post_expert_norm", True)) == "as it was: a norm follows each expert"
    assert "_apply_gate of their own" in said(lambda e: setattr(e, "_apply_gate", lambda both: both.chunk(2, -1)[0]))
    assert said(lambda e: setattr(e, "act_fn", torch.nn.Tanh())) == "as it was: their activation is Tanh"
    assert "parametrised" in said(lambda e: torch.nn.utils.parametrize.register_parametrization(e, "down_proj", torch.nn.Identity()))


def test_lora_around_the_matrices_of_experts():
    peft = pytest.importorskip("peft")
    model = make("qwen3_moe", "tigon")
    config = peft.LoraConfig(r=2, target_modules=[], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
    adapted = peft.get_peft_model(model, config)
    words = tigon.transformers.status(adapted)
    assert any("LoRA" in said for said in words.values())
    adapted(input_ids=IDS).logits.sum().backward()
    assert all(p.grad is not None for p in adapted.parameters() if p.requires_grad)


@pytest.mark.parametrize("model_type", ("gpt_oss", "mixtral"))
def test_compiled_in_one_graph(model_type):
    """Nothing is tried out while a compiler traces."""
    model = tigon.transformers.apply_to(make(model_type))
    ids = torch.arange(24).view(2, 12)
    _experts._find_gate.cache_clear()  # as in a process that ran no such experts before
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(input_ids=ids, labels=ids).loss, model(input_ids=ids, labels=ids).loss)
