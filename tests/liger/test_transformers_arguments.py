"""Every function of a model that is replaced, beside the one in whose place it stands: each argument of it, by position and by name."""
import copy
import inspect

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 8, "vocab_size": 96, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
           "shared_expert_intermediate_size": 48}


def make(model_type, **more):
    torch.manual_seed(42)
    sizes = {**SIZES, **(EXPERTS if model_type in ("gpt_oss", "mixtral", "qwen2_moe", "qwen3_moe") else {}), **more}
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(model_type, **sizes))
    for p in model.parameters():
        p.data.add_(0.1 * torch.randn_like(p))
    return model


@pytest.fixture(scope="module", params=tigon.transformers.MODEL_TYPES)
def models(request):
    """(as transformers made it, patched)"""
    plain = make(request.param)
    return plain, tigon.transformers.apply_to(copy.deepcopy(plain), attention=True, linear=True)


IDS = torch.randint(3, 96, (2, 10), generator=torch.Generator().manual_seed(7))
LABELS = IDS.masked_fill(torch.arange(10) < 3, -100)
PADDED = torch.ones_like(IDS)
PADDED[0, :2] = 0
EMBEDS = torch.randn(2, 10, 32, generator=torch.Generator().manual_seed(8))
CAUSAL = torch.ones(1, 1, 10, 10).tril().bool()
ADDED = torch.zeros(1, 1, 10, 10).masked_fill(~CAUSAL, torch.finfo(torch.float32).min)  # the same for attention that is written out
BASE = {"input_ids": IDS, "labels": LABELS}

# arguments of the models, each beside `input_ids` and `labels` unless it says None
CALLS = {
    "labels": {},
    "no labels": {"labels": None},
    "ignored labels": {"labels": torch.full_like(IDS, -100)},
    "labels of 32 bits": {"labels": LABELS.int()},
    "attention_mask": {"attention_mask": PADDED},
    "attention_mask of 4 dimensions": {"attention_mask": CAUSAL},
    "position_ids": {"position_ids": torch.arange(10)[None] + 3},
    "inputs_embeds": {"input_ids": None, "inputs_embeds": EMBEDS},
    "use_cache": {"use_cache": True},
    "no cache": {"use_cache": False},
    "logits_to_keep": {"logits_to_keep": 4, "labels": LABELS[:, -4:]},
    "logits_to_keep, a tensor": {"logits_to_keep": torch.tensor([2, 5, 8]), "labels": LABELS[:, [2, 5, 8]]},
    "logits_to_keep, no labels": {"logits_to_keep": 1, "labels": None},
    "output_router_logits": {"output_router_logits": True},
    "no output_router_logits": {"output_router_logits": False},
    # of **kwargs
    "return_dict": {"return_dict": True},
    "no return_dict": {"return_dict": False},
    "output_hidden_states": {"output_hidden_states": True},
    "output_attentions": {"output_attentions": True},
    "num_items_in_batch": {"num_items_in_batch": 7},
    "num_items_in_batch, a tensor": {"num_items_in_batch": torch.tensor(5)},
    "ignore_index": {"ignore_index": 5, "labels": IDS.masked_fill(torch.arange(10) < 3, 5)},
    "shift_labels": {"shift_labels": LABELS.roll(-2, 1)},
    "shift_labels alone": {"shift_labels": LABELS, "labels": None},
    "an unknown one": {"of_nobody": 3},
}


def outcome(model, call):
    """What the call returns, with the gradients that its loss gives; or the error that it ends with."""
    model.zero_grad()
    torch.manual_seed(3)
    arguments = {name: value for name, value in {**BASE, **call}.items() if value is not None}
    try:
        out = model(**arguments)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        return {"error": type(error)}
    found = dict(out) if isinstance(out, dict) else dict(enumerate(out))
    loss = found.get("loss", out[0] if isinstance(out, tuple) and out[0].dim() == 0 else None)
    if loss is not None:
        loss.backward()
        found["gradients"] = {name: p.grad for name, p in model.named_parameters()}
    if call.get("attention_mask") is PADDED and "logits" in found and not model._supports_sdpa:
        # Where a query sees no key, attention that is written out has the mean of all values, and every other nothing.
        found["logits"] = found["logits"].masked_fill(PADDED[..., None] == 0, 0)
    return found


def same(found, expected, path):
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype, path
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4, equal_nan=True, msg=lambda m: f"{path}: {m}")
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for name, value in expected.items():
            same(found[name], value, f"{path}, {name}")
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected), path
        for i, (f, e) in enumerate(zip(found, expected)):
            same(f, e, f"{path}, {i}")
    elif isinstance(expected, transformers.cache_utils.Cache):
        assert type(found) is type(expected)
        assert found.get_seq_length() == expected.get_seq_length(), path
    else:
        assert found == expected, path


@pytest.mark.parametrize("training", (True, False), ids=("training", "not training"))
def test_each_argument_of_the_model(models, training):
    plain, ours = models
    if not training and plain.config.model_type not in ("llama", "gemma2", "qwen2_moe"):
        pytest.skip("the forward of another model")
    parameters = set(inspect.signature(plain.forward).parameters) - {"kwargs", "cache", "past_key_values"}
    assert parameters <= set(BASE) | {name for call in CALLS.values() for name in call}
    assert inspect.signature(ours.forward) == inspect.signature(plain.forward)
    for model in models:
        model.train(training)
    for name, call in CALLS.items():
        if call.get("attention_mask") is CAUSAL and not plain._supports_sdpa:
            call = {"attention_mask": ADDED}
        found, expected = outcome(ours, call), outcome(plain, call)
        if training and "loss" in expected and "logits" not in found:  # the loss alone
            expected.pop("logits")
        if not expected.get("attentions"):  # sdpa gives none; what is written out, and stands in where there is a soft cap, does
            found.pop("attentions", None)
            expected.pop("attentions", None)
        same(found, expected, name)


def replaced(models):
    """(path, module of the plain model, patched module) of those that have another forward."""
    for (path, plain), ours in zip(models[0].named_modules(), models[1].modules()):
        if type(ours) is not type(plain):
            yield path, plain, ours


def test_names(models):
    """What others ask of a function or of a class is as it was."""
    paths = [path for path, plain, ours in replaced(models)]
    assert "" in paths and "model.norm" in paths
    if models[0].config.model_type != "gpt_oss":  # whose rotary tables and experts are others
        assert any(path.endswith("self_attn") for path in paths) and any("mlp" in path for path in paths)
    for path, plain, ours in replaced(models):
        assert isinstance(ours, type(plain))
        for mine, theirs in ((type(ours), type(plain)), (ours.forward, plain.forward)):
            for name in ("__name__", "__qualname__", "__module__", "__doc__"):
                assert getattr(mine, name) == getattr(theirs, name), (path, name)
        assert inspect.signature(ours.forward) == inspect.signature(plain.forward), path


@torch.no_grad()
def test_each_argument_of_the_modules(models):
    """With the arguments that the model gives, as it gives them, all by position, and all by name."""
    plain, ours = (model.eval() for model in models)
    calls, handles = {}, []
    for path, module, _ in replaced(models):
        keep = lambda m, args, kwargs, path=path: calls.setdefault(path, (args, kwargs)) and None  # noqa: E731
        handles.append(module.register_forward_pre_hook(keep, with_kwargs=True))
    plain(input_ids=IDS, attention_mask=PADDED, use_cache=False)
    for handle in handles:
        handle.remove()
    for path, module, patched in replaced(models):
        if path == "" or path not in calls:
            continue
        args, kwargs = calls[path]
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        result = (lambda y: y[0]) if path.endswith("self_attn") else lambda y: y  # probabilities are there where attention is written out
        expected = result(module(*args, **kwargs))
        same(result(patched(*args, **kwargs)), expected, path)
        same(result(patched(*bound.args, **bound.kwargs)), expected, path)
        bound.arguments.pop("kwargs", None)
        bound = {**bound.arguments, **kwargs}
        first = bound.pop("hidden_states") if "layers" in path and path.count(".") == 2 else None  # a layer's first has no name
        same(result(patched(*(() if first is None else (first,)), **bound)), expected, path)


def test_types_that_are_not_tigons(models):
    """In f64 a model computes as transformers wrote it."""
    plain, ours = (copy.deepcopy(model).double().train() for model in models)
    same(outcome(ours, {}), outcome(plain, {}), "f64")


@torch.no_grad()
@pytest.mark.parametrize("cache", (None, "static"), ids=str)
def test_generate(models, cache):
    plain, ours = (model.eval() for model in models)
    how = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None, "output_logits": True, "return_dict_in_generate": True}
    found, expected = (m.generate(IDS, attention_mask=PADDED, cache_implementation=cache, **how) for m in (ours, plain))
    assert torch.equal(found.sequences, expected.sequences)
    same(found.logits, expected.logits, "logits")
    static = transformers.StaticCache(config=plain.config, max_cache_len=24)
    same(ours(IDS, past_key_values=static).logits, plain(IDS).logits, "a pass into a static cache")
