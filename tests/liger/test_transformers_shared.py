"""What a layer's norms and the products of their results share: one product for all of attention, and a norm that is computed again; embeddings."""
import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
import tiny  # noqa: E402
from tigon.transformers import _forwards  # noqa: E402


def agree(model, plain, given):
    found, expected = (tiny.loss_and_gradients(m, given) for m in (model, plain))
    assert found.keys() == expected.keys()
    for name, e in expected.items():
        torch.testing.assert_close(found[name], e, rtol=1e-4, atol=2e-5 * e.abs().max().item() + 1e-9, msg=lambda words: f"{name}: {words}")


@pytest.fixture
def widths(monkeypatch):
    """Of each call, the numbers of columns of the products that are computed at once."""
    calls, own = [], _forwards.projections

    def apply(product, norm, x, *weights):
        calls.append(sum(w is not None for w in weights))
        return own(product, norm, x, *weights)

    monkeypatch.setattr(_forwards, "projections", apply)
    return calls


def kept(model, given):
    """Elements that a model keeps for its backward, but for parameters; each memory once."""
    sizes, own = {}, {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(t):
        memory = t.untyped_storage()
        if memory.data_ptr() not in own and t.is_floating_point():
            sizes[memory.data_ptr()] = memory.nbytes() // t.element_size()
        alive.append(t)
        return t

    alive = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        tiny.loss_of(model, given)
    return sum(sizes.values())


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma3_text", "granite"])
@pytest.mark.parametrize("linear", [False, True])
def test_gradients(widths, kind, linear):
    plain = tiny.make(kind)
    layers = len(plain.model.layers)
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=linear)
    widths.clear()  # what was asked of small copies
    agree(model, plain, tiny.batch(plain))
    assert widths.count(2) == layers and widths.count(3) == (layers if linear else 0)


def test_norms_are_not_kept(monkeypatch):
    model = tigon.transformers.apply_to(tiny.make("llama"), linear=True)
    given = tiny.batch(model)
    found = kept(model, given)
    monkeypatch.setattr(tigon.transformers._shared, "norm_of", lambda x: None)
    rows = given["input_ids"].numel()
    expected = found + 2 * len(model.model.layers) * rows * model.config.hidden_size
    assert kept(model, given) == expected
    monkeypatch.undo()
    assert kept(tigon.transformers.apply_to(model, linear=True, recompute=False), given) == expected
    agree(model, tigon.transformers.undo(copy.deepcopy(model)), given)
    assert kept(tigon.transformers.apply_to(model, linear=True), given) == found


def test_hooks(widths):
    """A module with a hook is called as it is, and those beside it too."""
    plain = tiny.make("llama")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    for m in (plain, model):
        m.model.layers[0].self_attn.k_proj.register_forward_hook(lambda module, args, y: 2 * y)
    agree(model, plain, tiny.batch(plain))
    assert widths.count(3) == len(plain.model.layers) - 1


def test_another_input(widths):
    """What attention is called with need not be what it was handed."""
    plain = tiny.make("llama")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)

    def twice(module, args, kwargs):
        return args, {**kwargs, "hidden_states": 2 * kwargs["hidden_states"]}

    for m in (plain, model):
        m.model.layers[0].self_attn.register_forward_pre_hook(twice, with_kwargs=True)
    agree(model, plain, tiny.batch(plain))


def times(x):
    x.mul_(1.5)


def times_unseen(x):
    x.data.mul_(1.5)


def a_place(x):
    x[:, 3] = 0.25


def given_of(args, kwargs):
    return args[0] if args else kwargs["hidden_states"]


@pytest.mark.parametrize("change", [times, times_unseen, a_place])
@pytest.mark.parametrize("name", ["self_attn", "mlp", "self_attn.q_proj"])
def test_an_input_that_a_hook_changes(name, change):
    """In its place: what was kept of the norm is not what is multiplied then."""
    plain = tiny.make("mistral")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    for m in (plain, model):
        m.model.layers[0].get_submodule(name).register_forward_pre_hook(lambda module, args, kwargs: change(given_of(args, kwargs)), with_kwargs=True)
    agree(model, plain, tiny.batch(plain))


INNER = {"llama": "self_attn.o_proj", "phi3": "self_attn.o_proj", "glm4": "self_attn.o_proj", "gpt_oss": "self_attn.o_proj",
         "deepseek_v3": "mlp.gate", "glm4v_moe": "mlp.gate", "llama4_text": "feed_forward.router", "falcon_h1": "feed_forward.up_proj"}


@pytest.mark.parametrize("change", [times, times_unseen])
@pytest.mark.parametrize("kind", INNER)
def test_an_input_that_others_keep(kind, change):
    """The result of attention, and what all parts of a mixture are given. Attention that is written out keeps probabilities, not its result."""
    plain = tiny.make(kind)
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    plain.set_attn_implementation("eager")
    for m in (plain, model):
        layer = getattr(m.model, "language_model", m.model).layers[1]
        layer.get_submodule(INNER[kind]).register_forward_pre_hook(lambda module, args, kwargs: change(given_of(args, kwargs)), with_kwargs=True)
    agree(model, plain, tiny.batch(plain, images=False))


@pytest.mark.parametrize("change", [times, a_place])
def test_a_result_that_a_hook_changes(change):
    """PyTorch refuses that of a view that a function of its own returns."""
    base = tiny.make("mistral")
    for name in ("self_attn", "self_attn.q_proj", "self_attn.o_proj", "mlp", "mlp.gate_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"):
        plain = copy.deepcopy(base)
        model = tigon.transformers.apply_to(copy.deepcopy(base), linear=True)
        for m in (plain, model):
            m.model.layers[0].get_submodule(name).register_forward_hook(lambda module, args, y: change(y[0] if isinstance(y, tuple) else y))
        agree(model, plain, tiny.batch(plain))


@pytest.mark.parametrize("name", ["self_attn", "mlp", "mlp.act_fn", "self_attn.k_norm"])
def test_what_nothing_depends_on_has_no_gradient(name):
    """None, not zeros, by which an optimizer would still decay the weight."""
    plain = tiny.make("qwen3")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    for m in (plain, model):
        hook = lambda module, args, y: tuple(t if t is None else t.detach() for t in y) if isinstance(y, tuple) else y.detach()  # noqa: E731
        m.model.layers[0].get_submodule(name).register_forward_hook(hook)
    agree(model, plain, tiny.batch(plain))
    none = [[n for n, p in m.named_parameters() if p.grad is None] for m in (model, plain)]
    assert none[0] == none[1] and none[1]


def test_a_vector():
    """A product of a row without a batch."""
    layer = tigon.transformers.apply_to(tiny.make("llama"), linear=True).model.layers[0].self_attn.o_proj
    x = torch.randn(layer.in_features, requires_grad=True)
    y = layer(x)
    assert y.shape == (layer.out_features,)
    y.sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0))


def test_some_gradients():
    """Frozen weights; a gradient of one product alone, twice."""
    plain = tiny.make("llama")
    for p in (plain.model.layers[0].self_attn.q_proj.weight, plain.model.layers[1].input_layernorm.weight, plain.model.embed_tokens.weight):
        p.requires_grad_(False)
    model, given = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True), tiny.batch(plain)
    agree(model, plain, given)
    one, other = (tiny.loss_of(m, given) for m in (model, plain))
    for _ in range(2):
        found, expected = (torch.autograd.grad(loss, m.model.layers[1].self_attn.v_proj.weight, retain_graph=True)[0]
                           for loss, m in ((one, model), (other, plain)))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    plain = tiny.make("llama")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    agree(model, plain, tiny.batch(plain))


def test_autocast():
    plain = tiny.make("llama")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), linear=True)
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = (tiny.loss_and_gradients(m, tiny.batch(plain)) for m in (model, plain))
    for name, e in expected.items():
        assert (found[name] - e).abs().max() <= 6e-2 * e.abs().max(), name


def test_compiled_without_gradients():
    model = tigon.transformers.apply_to(tiny.make("llama"), linear=True).eval()
    given = {"input_ids": tiny.batch(model)["input_ids"]}
    with torch.no_grad():
        expected = model(**given).logits
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(**given).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "gpt2"])
def test_embeddings(kind):
    """Rows of nn.Embedding, multiplied or not, and its gradient, which has no part of the padding."""
    plain = tiny.make(kind)
    for m in plain.modules():
        if isinstance(m, torch.nn.Embedding):
            m.padding_idx = 3
    model, given = tigon.transformers.apply_to(copy.deepcopy(plain)), tiny.batch(plain)
    embeddings = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Embedding)]
    assert {tigon.transformers.status(model)[n] for n in embeddings} == {"tigon"}
    given["input_ids"][0, 1:4] = 3
    agree(model, plain, given)
    other = tigon.transformers.apply_to(copy.deepcopy(plain), embedding=False)
    assert all(tigon.transformers.status(other)[n] != "tigon" for n in embeddings)
