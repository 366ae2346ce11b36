"""Modules are known by what they compute: of every model type, what runs on Tigon, its loss and gradients, and words for the rest."""
import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
import tiny  # noqa: E402
from tigon.transformers import _blocks, _models, _norms, _rotation  # noqa: E402
from tigon.transformers._classes import Part, put  # noqa: E402

PRESENT = [name for name in tiny.TYPES if name not in tiny.ABSENT]


@pytest.fixture(scope="module", params=PRESENT)
def pair(request):
    """A model of each type, and the same on Tigon."""
    plain = tiny.make(request.param)
    return request.param, plain, tigon.transformers.apply_to(copy.deepcopy(plain))


def step(model, dtype=torch.float32):
    """Loss and gradients of a batch."""
    model.zero_grad()
    torch.manual_seed(5)
    loss = tiny.loss_of(model, tiny.batch(model, dtype=dtype))
    loss.backward()
    return {"loss": loss.detach(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}


def same(found, expected, tolerance=1e-4):
    assert set(found) == set(expected)
    for name, value in expected.items():
        scale = max(value.abs().max().item(), 1e-3)
        torch.testing.assert_close(found[name], value, atol=tolerance * scale, rtol=0, msg=lambda m: f"{name}: {m}")  # noqa: B023


def distance(a, b):
    """Of two steps' gradients, in units of the second's."""
    squares = [sum(((a[n].float() if minus else 0) - b[n].float()).square().sum().item() for n in b if n != "loss") for minus in (True, False)]
    return (squares[0] / squares[1]) ** 0.5


def test_loss_and_gradients(pair):
    _, plain, ours = pair
    same(step(ours), step(plain))


# In 16 bits a token near the border between two experts may go to another one.
@pytest.mark.parametrize("model_type", ["llama", "gemma2", "gemma3n_text", "glm4", "cohere2", "nemotron", "deepseek_v3", "granite", "qwen2_vl"])
def test_bf16_is_as_near_to_f32(model_type):
    plain = tiny.make(model_type).bfloat16()
    exact, ours = copy.deepcopy(plain).float(), tigon.transformers.apply_to(copy.deepcopy(plain))
    expected = step(exact)
    assert distance(step(ours, torch.bfloat16), expected) <= 1.3 * distance(step(plain, torch.bfloat16), expected)


def test_every_module_is_said(pair):
    """Each norm, attention, feed-forward block and set of experts has words, and most of them are tigon."""
    _, plain, ours = pair
    words, before = tigon.transformers.status(ours), tigon.transformers.status(plain)
    assert "tigon" in words.values() and not set(before.values()) & {"tigon"}
    assert set(before) <= set(words)
    for name, module in ours.named_modules():
        kind = type(module).__name__
        if kind.endswith(("RMSNorm", "LayerNorm", "MLP")) and not any(isinstance(m, nn.ModuleList) for m in module.children()):
            inner = [n for n in words if n.startswith(f"{name}.")]
            assert name in words or inner, f"{name}, {kind}"
    assert all(w == "tigon" or w.startswith("as it was: ") for w in words.values())


def test_undo(pair):
    _, plain, ours = pair
    again = tigon.transformers.undo(copy.deepcopy(ours))
    assert [type(m) for m in again.modules()] == [type(m) for m in plain.modules()]
    assert again.config.get_text_config()._attn_implementation == plain.config.get_text_config()._attn_implementation


# What a module of a model is, in part: a norm's operator, casting and offset, a rotation's pairs and columns, a block's names.
FOUND = [
    ("llama", "model.norm", "norm", ("rms_norm", "llama", 0.0)),
    ("gemma", "model.norm", "norm", ("rms_norm", "gemma", 1.0)),
    ("gpt_oss", "model.norm", "norm", ("rms_norm", "gemma", 0.0)),
    ("qwen3_next", "model.norm", "norm", ("rms_norm", "gemma", 1.0)),
    ("olmo2", "model.layers.0.self_attn.q_norm", "norm", ("rms_norm", "gemma", 0.0)),
    ("nemotron", "model.norm", "norm", ("layer_norm", None, 1.0)),
    ("cohere", "model.norm", "norm", ("layer_norm", None, 0.0)),
    ("phi", "model.final_layernorm", "norm", ("layer_norm", None, 0.0)),
    ("llama", "model.layers.0.mlp", "mlp", ("gate_proj", "up_proj", "down_proj", "act_fn")),
    ("phi3", "model.layers.0.mlp", "mlp", ("gate_up_proj", None, "down_proj", "activation_fn")),
    ("falcon_h1", "model.layers.0.feed_forward", "mlp", ("gate_proj", "up_proj", "down_proj", "act_fn", "gate_multiplier", "down_multiplier")),
    ("deepseek_v4", "model.layers.0.mlp.shared_experts", "mlp", ("gate_proj", "up_proj", "down_proj", "act_fn", None, None, "limit")),
    ("seed_oss", "model.layers.0.mlp", "mlp", ("gate_proj", "up_proj", "down_proj", "act_fn", None, None, None, ("residual_dropout",))),
    ("nemotron", "model.layers.0.mlp.act_fn", "squared", ()),
    ("gpt2", "transformer.h.0.mlp", "mlp", ("c_fc", None, "c_proj", "act", None, None, None, (), True, "dropout")),
    ("starcoder2", "model.layers.0.mlp", "mlp", ("c_fc", None, "c_proj", "act", None, None, None, ("residual_dropout",), True, None)),
    ("llama4_text", "model.layers.1.feed_forward", "mixture", ()),
    ("mixtral", "model.layers.0.mlp.experts", "experts", ()),
    ("gemma2", "model.layers.0", "layer", ("self_attn", "mlp", ("input_layernorm", "pre_feedforward_layernorm", "post_attention_layernorm",
                                                              "post_feedforward_layernorm"))),
    ("granite", "model.layers.0", "layer", ("self_attn", "mlp", ("input_layernorm", "post_attention_layernorm"), "residual_multiplier")),
]


@pytest.mark.parametrize("model_type, path, make, settings", FOUND, ids=[f"{t}-{p}" for t, p, *_ in FOUND])
def test_what_is_found(model_type, path, make, settings):
    part = _models.find(tiny.make(model_type).get_submodule(path))
    assert isinstance(part, Part) and part.make == make, part
    assert part.settings[:len(settings)] == settings


ROTATIONS = {
    "llama": ("rope", 2, "halves", "first"),
    "glm4": ("rope", 2, "adjacent", "first"),
    "cohere": ("rope", 2, "adjacent", "second"),
    "gpt_oss": ("rope", 2, "halves", "all"),
    "deepseek_v2": ("llama4_rope", 2),
    "deepseek_v3": ("rope", 2, "adjacent_to_halves", "first"),
    "deepseek_v4": ("rope", 1, "adjacent", "all", True),
    "gemma3n_text": ("rope", 1, "halves", "first"),
    "llama4_text": ("llama4_rope", 2),
    "qwen2_vl_text": ("qwen2vl_mrope", 2),
}


@pytest.mark.parametrize("model_type", ROTATIONS)
def test_rotations(model_type):
    found = {s for m in tiny.make(model_type).modules() for p in [_models.find(m)] if getattr(p, "make", None) == "attention" for _, s in p.settings}
    assert any(s[:len(ROTATIONS[model_type])] == ROTATIONS[model_type] for s in found), found


class Scaled(nn.Module):
    """A norm that Tigon does not have."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-6

    def forward(self, x):
        return self.weight * x / (x.abs().mean(-1, keepdim=True) + self.eps)


def rotate_by_thirds(q, k, cos, sin):
    return q * cos[:, None] + q.roll(1, -1) * sin[:, None], k * cos[:, None] + k.roll(1, -1) * sin[:, None]


def test_what_is_not_tigons_stays():
    assert _models.find(Scaled()) == _norms.UNKNOWN
    assert _rotation.recognise(rotate_by_thirds) is None
    assert _models.find(nn.Dropout()) is None and _models.find(nn.GELU()) is None


def test_a_model_of_no_known_type():
    """A class that nobody has heard of, of modules whose forwards compute what Tigon has."""
    llama = sys.modules[type(tiny.make("llama")).__module__]

    class OwnConfig(transformers.LlamaConfig):
        model_type = "of_ones_own"

    class OwnNorm(nn.Module):
        def __init__(self, width, eps=1e-6):
            super().__init__()
            self.scale_eps, self.weight = eps, nn.Parameter(torch.ones(width))

        def forward(self, x):
            return (x.float() * (x.float().square().mean(-1, keepdim=True) + self.scale_eps).rsqrt()).to(x.dtype) * self.weight

    torch.manual_seed(1)
    plain = llama.LlamaForCausalLM(OwnConfig(**tiny.TEXT)).train()
    for module in plain.model.layers:
        module.input_layernorm = OwnNorm(tiny.TEXT["hidden_size"])
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    assert set(tigon.transformers.status(ours).values()) == {"tigon"}
    same(step(ours), step(plain))


def patched(module):
    part = _models.find(module)
    module = copy.deepcopy(module)
    if isinstance(part, Part):
        put(module, _models.patch_of(module, part))
    return module


def computed(module, *args):
    torch.manual_seed(7)
    return module(*args)


def test_dropout_within_a_block():
    """Of a class whose dropout was 0 when it was asked, and of the same block later."""
    t5gemma = pytest.importorskip("transformers.models.t5gemma.modeling_t5gemma")
    config = t5gemma.T5GemmaConfig().decoder
    config.hidden_size, config.intermediate_size, config.dropout_rate = 64, 96, 0.0
    plain, x = t5gemma.T5GemmaMLP(config), torch.randn(3, 5, 64)
    ours = patched(plain)
    assert type(ours) is not type(plain)
    torch.testing.assert_close(ours(x), plain(x))
    for m in (plain, ours):
        m.dropout.p = 0.5
    torch.testing.assert_close(computed(ours, x), computed(plain, x))
    config.dropout_rate = 0.25
    other = t5gemma.T5GemmaMLP(config)
    torch.testing.assert_close(computed(patched(other), x), computed(other, x))
    for m in (plain, ours):
        m.dropout.p = 0.0
        m.dropout.register_forward_hook(lambda module, args, y: 2 * y)
    torch.testing.assert_close(ours(x), plain(x))


class Plain(nn.Module):
    """A feed-forward block without a gate."""

    def __init__(self, act, bias=True):
        super().__init__()
        self.up, self.act, self.down, self.drop = nn.Linear(32, 48, bias=bias), act, nn.Linear(48, 32, bias=bias), nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(self.down(self.act(self.up(x))))


ACTIVATIONS = [nn.GELU(), nn.GELU("tanh"), nn.SiLU(), *(transformers.activations.ACT2FN[name] for name in (
    "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate", "quick_gelu", "silu"))]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("act", ACTIVATIONS, ids=lambda a: str(type(a).__name__))
def test_without_a_gate(act, bias):
    """Values and gradients, with and without a hook or dropout; what is kept for backward is what the activation is given."""
    plain, x = Plain(copy.deepcopy(act), bias), torch.randn(3, 5, 32)
    ours = patched(plain)
    assert _blocks.words_of(ours, _models.find(ours)) is None

    def gradients(module):
        torch.manual_seed(3)
        given = x.clone().requires_grad_()
        y = module(given)
        return y.detach(), *torch.autograd.grad(y.square().sum(), [given, *module.parameters()])

    torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-4, atol=1e-5)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.untyped_storage().data_ptr()) or t, lambda t: t):
        inner = []
        hook = ours.up.register_forward_hook(lambda module, args, y: inner.append(y.untyped_storage().data_ptr()))
        ours(x)
        hook.remove()
    weights = {p.untyped_storage().data_ptr() for p in ours.parameters()} | {x.untyped_storage().data_ptr()}
    assert len(set(kept) - weights) == 2 and inner[0] in kept  # and a row of ones
    for m in (plain, ours):
        m.drop.p = 0.5
    torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-4, atol=1e-5)
    for m in (plain, ours):
        m.act.register_forward_hook(lambda module, args, y: y + 1)
        m.down.register_forward_pre_hook(lambda module, args: args[0] * 2)
    torch.testing.assert_close(gradients(ours), gradients(plain), rtol=1e-4, atol=1e-5)


def test_dropout_within_a_layer():
    """That of Phi-3 is a module, and hooks of it run; that of IDEFICS is a number, which another model has otherwise."""
    plain = tiny.make("phi3")
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    for m in (plain, ours):
        m.model.layers[0].resid_mlp_dropout.register_forward_hook(lambda module, args, y: 2 * y)
        m.model.layers[1].resid_attn_dropout.register_forward_pre_hook(lambda module, args: args[0] + 1)
    same(step(ours), step(plain))
    for m in (plain, ours):
        m.model.layers[0].resid_attn_dropout.p = 0.5
        torch.manual_seed(5)
    expected = step(plain)
    torch.manual_seed(5)
    same(step(ours), expected)


def test_norms_around_dropout():
    """Which of four norms is which is found in a layer with dropout, too."""
    sizes = {**tiny.TEXT, "query_pre_attn_scalar": 16, **tiny.WINDOWS}
    made = transformers.AutoConfig.for_model("t5gemma", encoder=sizes, decoder=sizes, dropout_rate=0.0, attention_dropout=0.0)
    torch.manual_seed(42)
    plain = transformers.AutoModelForSeq2SeqLM.from_config(made).train()
    for p in plain.parameters():
        p.data.add_(torch.randn_like(p), alpha=0.05)
    ids = tiny.batch(tiny.make("llama"))["input_ids"]
    given = {"input_ids": ids, "labels": ids.flip(1)}
    same(*(tiny.loss_and_gradients(model, given) for model in (tigon.transformers.apply_to(copy.deepcopy(plain)), plain)))


class Grouped(nn.Module):
    """RMSNorm of each of so many groups."""

    def __init__(self, groups):
        super().__init__()
        self.weight, self.eps, self.groups = nn.Parameter(torch.ones(32)), 1e-6, groups

    def forward(self, x):
        y = x.unflatten(-1, (self.groups, -1))
        return self.weight * (y * (y.square().mean(-1, keepdim=True) + self.eps).rsqrt()).flatten(-2)


def test_numbers_of_a_class():
    """What one module of a class computes another need not."""
    x = torch.randn(3, 32) * torch.arange(1.0, 33.0)
    for groups in (1, 4):
        plain = Grouped(groups)
        ours = patched(plain)
        assert (type(ours) is not type(plain)) == (groups == 1)
        torch.testing.assert_close(ours(x), plain(x))


def test_a_factor_that_was_1():
    """And is another later."""
    plain = tiny.make("granite", residual_multiplier=1.0)
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    for model in (plain, ours):
        model.model.layers[0].residual_multiplier = 0.5
    given = tiny.batch(plain)
    same(tiny.loss_and_gradients(ours, given), tiny.loss_and_gradients(plain, given))


def test_a_model_of_nothing_is_refused():
    config = transformers.AutoConfig.for_model("ctrl", vocab_size=32, n_embd=16, n_layer=1, n_head=2, dff=16, n_positions=8)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.__class__ = type("Own", (nn.Identity,), {})
    if not any(isinstance(_models.find(m), Part) and type(m) is not nn.Linear for m in model.modules()):
        with pytest.raises(ValueError, match="nothing in CTRLLMHeadModel"):
            tigon.transformers.apply_to(model)


def test_random_numbers_are_left_alone():
    plain = tiny.make("seed_oss")
    _models._known.clear()
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    tigon.transformers.apply_to(plain)
    assert torch.equal(torch.rand(4), expected)


def test_on_the_meta_device():
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(tiny.config("gemma2"))
    _models._known.clear()
    words = tigon.transformers.status(tigon.transformers.apply_to(model))
    assert {word for name, word in words.items() if name} == {"tigon"}  # of the head it depends on where it is


def test_a_pickle_in_another_process(tmp_path):
    """There no class has been tried: the pickle says what each is."""
    ours = tigon.transformers.apply_to(tiny.make("glm4"))
    file = io.BytesIO()
    pickle.dump(ours, file)
    (tmp_path / "model").write_bytes(file.getvalue())
    program = ("import pickle, sys, tigon.transformers\n"
               "model = pickle.load(open(sys.argv[1], 'rb'))\n"
               "assert set(tigon.transformers.status(model).values()) == {'tigon'}, tigon.transformers.status(model)\n")
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "model")], check=True)


@pytest.mark.parametrize("order", ("before", "after"))
@pytest.mark.parametrize("model_type", ("glm4", "gemma3_text", "cohere2", "granitemoe"))
def test_adapters(model_type, order):
    peft = pytest.importorskip("peft")

    def adapted(model):
        torch.manual_seed(3)
        config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj", "gate_up_proj"], init_lora_weights=False)
        return peft.get_peft_model(model, config)

    base = tiny.make(model_type)
    plain = adapted(copy.deepcopy(base))
    _models._known.clear()
    if order == "before":
        ours = tigon.transformers.apply_to(adapted(copy.deepcopy(base)))
    else:
        ours = adapted(tigon.transformers.apply_to(copy.deepcopy(base)))
    found, expected = ({"loss": model(**tiny.batch(model.get_base_model())).loss} for model in (ours, plain))
    for model, step_ in ((ours, found), (plain, expected)):
        step_["loss"].backward()
        step_.update({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
        step_["loss"] = step_["loss"].detach()
    same(found, expected)
    assert "tigon" in tigon.transformers.status(ours).values()
