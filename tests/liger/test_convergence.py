"""Tiny models of Hugging Face, trained 30 steps on the CPU with and without Tigon: losses, logits and parameters agree."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402

STEPS = 30
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
MODELS = ("llama", "mistral", "mixtral", "phi3", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text")
# |a - b| <= atol + rtol |b| of losses, log-probabilities and parameters; those of 16 bits are of Liger-Kernel's convergence tests.
TOLERANCES = {
    torch.float32: {"loss": (1e-5, 1e-5), "logits": (1e-4, 1e-5), "parameters": (1e-5, 1e-5)},
    torch.bfloat16: {"loss": (1e-2, 5e-2), "logits": (1e-1, 1e-2), "parameters": (1e-2, 1e-2)},
}


def make(model_type, dtype):
    torch.manual_seed(42)
    config = transformers.AutoConfig.for_model(model_type, **SIZES)
    return transformers.AutoModelForCausalLM.from_config(config).to(dtype).train()


def batches(count):
    """Text that can be learnt: in each line a token is followed by one that depends on it, but for some noise."""
    generator = torch.Generator().manual_seed(7)
    follow = torch.randperm(SIZES["vocab_size"], generator=generator)
    for _ in range(count):
        lines = torch.randint(SIZES["vocab_size"], (4, 48), generator=generator)
        for i in range(1, lines.shape[1]):
            lines[:, i] = torch.where(torch.rand(4, generator=generator) < 0.9, follow[lines[:, i - 1]], lines[:, i])
        yield lines


def train(model, rate):
    # An eps above the rounding errors of gradients, which AdamW would else make whole steps of where a gradient is nearly 0.
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, eps=1e-5)
    losses = []
    for ids in batches(STEPS):
        labels = ids.masked_fill(ids % 17 == 3, -100)
        output = model(input_ids=ids, labels=labels)
        output.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(output.loss.detach().float())
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=next(batches(1))).logits
    return {
        "loss": torch.stack(losses),
        "logits": logits.float().log_softmax(-1).topk(20).values,
        "parameters": torch.cat([p.detach().float().flatten() for p in model.parameters()]),
    }


@pytest.mark.parametrize("dtype", TOLERANCES, ids=("f32", "bf16"))
@pytest.mark.parametrize("attention", (False, True), ids=("attention-as-it-is", "attention"))
@pytest.mark.parametrize("model_type", ("llama", "gemma"))
def test_training(model_type, attention, dtype):
    plain = make(model_type, dtype)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), attention=attention)
    rate = 1e-3 if dtype is torch.float32 else 1e-4
    expected, found = train(plain, rate), train(ours, rate)
    assert expected["loss"][-1] < expected["loss"][0] - 0.1
    for name, (atol, rtol) in TOLERANCES[dtype].items():
        torch.testing.assert_close(found[name], expected[name], atol=atol, rtol=rtol, msg=lambda m: f"{name}: {m}")  # noqa: B023


@pytest.mark.parametrize("model_type", MODELS)
def test_one_step(model_type):
    """Every type of model: the loss without logits, all gradients, logits in evaluation, a loss over several batches."""
    plain = make(model_type, torch.float32)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), attention=True)
    ids = next(batches(1))
    for options in ({}, {"num_items_in_batch": 100}):
        outputs = [model(input_ids=ids, labels=ids, **options) for model in (plain, ours)]
        torch.testing.assert_close(outputs[1].loss, outputs[0].loss, atol=1e-5, rtol=1e-5)
        assert outputs[1].logits is None
    for output in outputs:
        output.loss.backward()
    for (name, p), q in zip(plain.named_parameters(), ours.parameters()):
        torch.testing.assert_close(q.grad, p.grad, atol=1e-5, rtol=1e-4, msg=lambda m: f"{name}: {m}")  # noqa: B023
    logits = [model.eval()(input_ids=ids).logits for model in (plain, ours)]
    torch.testing.assert_close(logits[1], logits[0], atol=1e-5, rtol=1e-4)


class NothingConfig(transformers.PretrainedConfig):
    model_type = "nothing_of_tigon"


class Nothing(transformers.PreTrainedModel):
    config_class = NothingConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(3, 3)


def test_other_models_stay():
    """One model is changed, not its class; one that has nothing of Tigon's is refused, or made as transformers makes it."""
    plain = make("llama", torch.float32)
    classes = [type(module) for module in plain.modules()]
    tigon.transformers.apply_to(copy.deepcopy(plain))
    assert [type(module) for module in plain.modules()] == classes
    transformers.AutoModelForCausalLM.register(NothingConfig, Nothing)
    with pytest.warns(UserWarning, match="nothing in Nothing"):
        model = tigon.transformers.AutoTigonModelForCausalLM.from_config(NothingConfig())
    assert type(model) is Nothing
    with pytest.raises(ValueError, match="nothing in Nothing"):
        tigon.transformers.apply_to(model)


def test_auto_model():
    config = transformers.AutoConfig.for_model("llama", **SIZES)
    model = tigon.transformers.AutoTigonModelForCausalLM.from_config(config, rope=False)
    plain = transformers.AutoModelForCausalLM.from_config(config)
    assert type(model.model.norm) is not type(plain.model.norm)
    assert type(model.model.layers[0].self_attn) is type(plain.model.layers[0].self_attn)
