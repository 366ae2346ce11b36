"""tigon.transformers' attention with every mask and cache of transformers, beside PyTorch's."""
import copy
import functools

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
from test_transformers import loss_and_gradients_of, same  # noqa: E402
from tigon import _core  # noqa: E402

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 16, "vocab_size": 97, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WINDOW = {"sliding_window": 5}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
MODELS = {
    "llama": {},
    "mistral": WINDOW,
    "gemma2": {**WINDOW, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 2.0},
    "gemma3_text": {**WINDOW, "query_pre_attn_scalar": 16},
    "gpt_oss": {**WINDOW, **EXPERTS},
    "phi3": WINDOW,
    "qwen2": {**WINDOW, "use_sliding_window": True, "max_window_layers": 1},
    "qwen2_moe": {**WINDOW, **EXPERTS, "use_sliding_window": True, "max_window_layers": 1},
    "qwen3": {},
}
IDS = torch.randint(3, 97, (2, 12), generator=torch.Generator().manual_seed(7))
LABELS = IDS.masked_fill(torch.arange(12) < 5, -100)
RIGHT, LEFT = torch.ones_like(IDS), torch.ones_like(IDS)
RIGHT[1, 8:], LEFT[1, :4] = 0, 0
PACKED = torch.cat([torch.arange(5), torch.arange(7)])[None]
PACKED_TWICE = torch.cat([PACKED, torch.cat([torch.arange(1), torch.arange(3), torch.arange(8)])[None]])
SOME = torch.rand(2, 1, 12, 12, generator=torch.Generator().manual_seed(1)).gt(0.3) | torch.eye(12).bool()
MASKS = {
    "none": {},
    "padding behind": {"attention_mask": RIGHT, "labels": LABELS.masked_fill(RIGHT == 0, -100)},
    "padding in front": {"attention_mask": LEFT},
    "packed": {"position_ids": PACKED},
    "packed rows": {"position_ids": PACKED_TWICE},
    "of four dimensions": {"attention_mask": torch.zeros(2, 1, 12, 12).masked_fill(~SOME, torch.finfo(torch.float32).min)},
}


def make(model_type, **more):
    torch.manual_seed(42)
    config = transformers.AutoConfig.for_model(model_type, **{**SIZES, **MODELS[model_type], **more})
    model = transformers.AutoModelForCausalLM.from_config(config).train()
    for name, p in model.named_parameters():
        if name.endswith("sinks"):
            torch.nn.init.normal_(p)
    return model


def both(model_type, **more):
    plain = make(model_type, **more)
    return plain, tigon.transformers.apply_to(copy.deepcopy(plain))


class Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts calls of flash_attention, and of PyTorch's attention."""

    def __init__(self):
        super().__init__()
        self.ours = self.theirs = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.ours += function.__name__.startswith("flash_attention_forward")
        self.theirs += "scaled_dot_product" in function.__name__ or function.__name__.startswith("_softmax.")
        return function(*args, **(kwargs or {}))


def step(model, call):
    return loss_and_gradients_of(model, {"input_ids": IDS, "labels": LABELS, **call})


@pytest.mark.parametrize("model_type", MODELS)
def test_masks(model_type):
    plain, ours = both(model_type)
    assert ours.config._attn_implementation == "tigon"
    for name, call in MASKS.items():
        expected = step(plain, call)
        with Calls() as calls:
            found = step(ours, call)
        assert calls.ours == 2, name
        assert "moe" in model_type or "gpt" in model_type or not calls.theirs, name  # (a router has a softmax)
        same(found, expected)


@torch.no_grad()
@pytest.mark.parametrize("cache", (None, "static", "none"), ids=str)
@pytest.mark.parametrize("model_type", MODELS)
def test_generate(model_type, cache):
    """Far beyond the window, in one batch with and without padding: the same tokens."""
    models = [model.eval() for model in both(model_type)]
    how = {"max_new_tokens": 9, "do_sample": False, "eos_token_id": None, "output_logits": True, "return_dict_in_generate": True}
    how.update({"use_cache": False} if cache == "none" else {"cache_implementation": cache})
    for mask in (torch.ones_like(LEFT), LEFT):
        with Calls() as calls:
            found = models[1].generate(IDS, attention_mask=mask, **how)
        expected = models[0].generate(IDS, attention_mask=mask, **how)
        assert torch.equal(found.sequences, expected.sequences)
        torch.testing.assert_close(torch.stack(found.logits), torch.stack(expected.logits), atol=1e-5, rtol=1e-4)
        assert calls.ours == 18


@torch.no_grad()
@pytest.mark.parametrize("static", (False, True), ids=("dynamic", "static"))
@pytest.mark.parametrize("model_type", ("llama", "mistral", "gemma2", "gpt_oss"))
def test_pieces_into_a_cache(model_type, static):
    """Several queries behind what a cache has: pieces of 3, 7 and 2 tokens."""
    plain, ours = (model.eval() for model in both(model_type))
    for mask in (None, LEFT):
        caches = [transformers.StaticCache(config=plain.config, max_cache_len=20) if static else transformers.DynamicCache(config=plain.config)
                  for _ in range(2)]
        for start, end in ((0, 3), (3, 10), (10, 12)):
            padding = None if mask is None else mask[:, :end]
            with Calls() as calls:
                found = ours(IDS[:, start:end], past_key_values=caches[0], attention_mask=padding).logits
            expected = plain(IDS[:, start:end], past_key_values=caches[1], attention_mask=padding).logits
            seen = LEFT[:, start:end, None] if mask is not None else 1
            torch.testing.assert_close(found * seen, expected * seen, atol=1e-5, rtol=1e-4)
            assert calls.ours == 2


def checkpoint_each_layer(model, reentrant):
    """As programs do it that know nothing of transformers' own way, which leaves out the cache."""
    model.enable_input_require_grads()
    for layer in model.model.layers:
        def again(hidden, *args, own=layer.forward, **kwargs):
            return torch.utils.checkpoint.checkpoint(functools.partial(own, **kwargs), hidden, *args, use_reentrant=reentrant)
        layer.forward = again


@pytest.mark.parametrize("reentrant", (False, True))
@pytest.mark.parametrize("model_type", MODELS)
def test_a_cache_that_layers_fill_twice(model_type, reentrant):
    """Run again for backward, a layer has its keys twice. PyTorch's attention fails, or has no gradient of the first ones; ours are the last."""
    plain, ours = both(model_type)
    checkpoint_each_layer(ours, reentrant)
    for name in ("none", "padding behind", "padding in front", "packed"):
        call = {**MASKS[name], "use_cache": True}
        same(step(ours, call), step(plain, call))


def test_a_cache_of_another_length():
    """Keys that a mask is not for are an error, as they are to PyTorch's attention."""
    _, ours = both("llama")
    checkpoint_each_layer(ours, False)
    cache = transformers.DynamicCache(config=ours.config)
    with torch.no_grad():
        ours(IDS[:, :4], past_key_values=cache)
    with pytest.raises(RuntimeError, match="must match the size"):
        ours(IDS[:, 4:], past_key_values=cache, labels=IDS[:, 4:]).loss.backward()


@pytest.mark.parametrize("model_type", ("llama", "gemma2"))
def test_one_graph(model_type):
    """Compiled whole: to a compiler rows without a mask are packed as well."""
    plain, ours = both(model_type, num_hidden_layers=1)
    for name in ("padding in front", "packed rows"):
        torch._dynamo.reset()
        ours.zero_grad()
        loss = torch.compile(ours, fullgraph=True, backend="aot_eager")(input_ids=IDS, labels=LABELS, **MASKS[name]).loss
        loss.backward()
        found = {"loss": loss.detach(), **{name: p.grad for name, p in ours.named_parameters() if p.grad is not None}}
        same(found, step(plain, MASKS[name]))


@torch.no_grad()
def test_generate_compiled():
    plain, ours = (model.eval() for model in both("gemma2"))
    torch._dynamo.reset()
    how = {"max_new_tokens": 3, "do_sample": False, "eos_token_id": None, "cache_implementation": "static"}
    config = transformers.CompileConfig(fullgraph=True, backend="aot_eager", dynamic=False)
    config._compile_all_devices = True
    found = ours.generate(IDS, attention_mask=LEFT, compile_config=config, **how)
    assert torch.equal(found, plain.generate(IDS, attention_mask=LEFT, **how))


def no_library(monkeypatch):
    """A library whose devices have nothing."""
    from tigon.transformers import _library

    _library._takes.cache_clear()
    monkeypatch.setattr(_core, "takes", lambda *question: False)
    monkeypatch.setattr(_library, "_takes", _library._takes.__wrapped__)


@pytest.mark.parametrize("after", (False, True), ids=("before the mask", "behind the mask"))
@pytest.mark.parametrize("model_type", ("llama", "mistral", "gemma2", "gpt_oss"))
def test_what_the_library_has_not_is_pytorchs(model_type, after, monkeypatch):
    """Whether it says so as the mask is made, or, of more than the mask tells, as attention is called."""
    plain, ours = both(model_type)
    no_library(monkeypatch)
    if after:
        monkeypatch.setattr("tigon.transformers._masks.takes_config", lambda *args, **more: True)
    for name, call in MASKS.items():
        expected = step(plain, call)
        with Calls() as calls:
            same(step(ours, call), expected)
        assert not calls.ours and calls.theirs, name


@pytest.mark.parametrize("model_type", ("mistral", "gpt_oss"))
def test_dropout_is_pytorchs(model_type):
    plain, ours = both(model_type, attention_dropout=0.4)
    results = []
    for model in (plain, ours):
        torch.manual_seed(3)
        results.append(step(model, MASKS["packed"]))
    same(*reversed(results))


def test_the_library_is_asked():
    shapes = {"q": (2, 9, 4, 16), "k": (2, 9, 2, 16), "v": (2, 9, 2, 24), "sinks": (4,)}
    ask = lambda types, **options: _core.takes("flash_attention_forward", 1, 0, types, shapes, options)  # noqa: E731
    assert ask({}) and ask(dict.fromkeys(shapes, "bf16"), causal=True, window_left=3, softcap=5.0)
    with pytest.raises(LookupError, match="no operator flash"):
        _core.takes("flash", 1, 0, {}, {}, {})
    with pytest.raises(ValueError, match="of type 'f31'"):
        ask({"q": "f31"})


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
def test_layers_that_were_copied(implementation):
    """They have a configuration of their own, as those of PEFT's layer_replication, and are given the model's masks."""
    plain = make("llama", attn_implementation=implementation)
    plain.model.layers.append(copy.deepcopy(plain.model.layers[0]))
    plain.model.layers[2].self_attn.layer_idx, plain.config.num_hidden_layers = 2, 3
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    for name, call in MASKS.items():
        same(step(ours, call), step(plain, call))
    tigon.transformers.undo(ours)
    assert {layer.self_attn.config._attn_implementation for layer in ours.model.layers} == {implementation}


@pytest.mark.parametrize("kind", (torch.int8, torch.uint8, torch.int32, torch.int64), ids=str)
@pytest.mark.parametrize("model_type", ("llama", "gemma2"))
def test_masks_of_integers_are_no_masks(model_type, kind):
    """Of a program's own, with a row for each query: an error of PyTorch's, and not what ours of these types mean."""
    for model in both(model_type):
        with pytest.raises(RuntimeError, match="Expected attn_mask dtype"):
            model(IDS, attention_mask=torch.ones(2, 1, 12, 12, dtype=kind))


def test_switched_off():
    for model_type in ("llama", "gemma2"):
        model = make(model_type)
        was = model.config._attn_implementation  # sdpa or eager, as the version of transformers has it
        assert tigon.transformers.apply_to(model, attention=False).config._attn_implementation == was
        assert tigon.transformers.apply_to(model).config._attn_implementation == "tigon"
        assert "tigon" not in str(model.config.to_dict())
        assert tigon.transformers.apply_to(model, attention=False).config._attn_implementation == was
    model.set_attn_implementation("flex_attention")  # asked for by name
    assert tigon.transformers.apply_to(model).config._attn_implementation == "flex_attention"
