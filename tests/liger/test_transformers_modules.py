"""Modules of a patched model around which something is: whatever runs when PyTorch calls them runs, put there before apply_to() or after."""
import copy
import importlib
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

transformers = pytest.importorskip("transformers")
import tigon.transformers  # noqa: E402
from test_transformers_arguments import BASE, IDS, make, same  # noqa: E402


def loss_and_gradients(model, **call):
    model.train().zero_grad()
    out = model(**{**BASE, **call})
    out.loss.backward()
    return {"loss": out.loss.detach(), **{name: p.grad for name, p in model.named_parameters()}}


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Tagged(torch.Tensor):
    """A subclass of tensors, as quantised weights have, whose products are its own."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            y = function(*args, **(kwargs or {}))
        return 3 * y if function is nn.functional.linear else y


def twice(module, args, output):
    return tuple(2 * x if isinstance(x, torch.Tensor) else x for x in output) if isinstance(output, tuple) else 2 * output


def own_forward(module):
    forward = module.forward
    module.forward = lambda *args, **kwargs: 2 * forward(*args, **kwargs)


def to_doubled(module):
    module.__class__ = Doubled


def to_tagged(module):
    weight = module.weight.detach().as_subclass(Tagged)
    del module.weight
    module.weight = weight


def global_hook(module):
    nn.modules.module.register_module_forward_hook(lambda m, args, output: 2 * output if m is module else None)


WITH_WEIGHTS = {
    "weight_norm": lambda m: torch.nn.utils.weight_norm(m) and m.weight_g.data.mul_(2),
    "parametrized weight_norm": lambda m: parametrizations.weight_norm(m).parametrizations.weight.original0.data.mul_(2),
    "pruned": lambda m: prune.l1_unstructured(m, "weight", 0.5),
}
AROUND_LINEAR = {
    **WITH_WEIGHTS,
    "spectral_norm": parametrizations.spectral_norm,
    "a subclass": to_doubled,
    "a weight of another class": to_tagged,
}
AROUND = {
    "hook": lambda m: m.register_forward_hook(twice),
    "pre-hook": lambda m: m.register_forward_pre_hook(lambda m, args: (args[0] - 1, *args[1:])),
    "backward hook": lambda m: m.register_full_backward_hook(lambda m, dx, dy: tuple(x if x is None else 2 * x for x in dx)),
    "backward pre-hook": lambda m: m.register_full_backward_pre_hook(lambda m, dy: tuple(2 * x for x in dy)),
    "global hook": global_hook,
    "a forward of its own": own_forward,
}
MODULES = {
    "llama": ("lm_head", "model.norm", "model.embed_tokens", "input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.o_proj",
              "mlp", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "mlp.act_fn"),
    "phi3": ("mlp.gate_up_proj", "mlp.down_proj", "mlp.activation_fn"),
    "qwen3": ("self_attn.q_norm", "self_attn.k_norm"),
    "mixtral": ("mlp.experts", "mlp.experts.act_fn"),
}
CASES = [(model_type, path) for model_type, paths in MODULES.items() for path in paths]


def clear_global_hooks():
    for hooks in (nn.modules.module._global_forward_hooks, nn.modules.module._global_forward_hooks_always_called):
        hooks.clear()


@pytest.fixture(autouse=True)
def no_global_hooks():
    yield
    clear_global_hooks()


def changes_for(path):
    if path == "lm_head" or path.endswith("_proj"):
        return {**AROUND, **AROUND_LINEAR}
    return {**AROUND, **(WITH_WEIGHTS if path.endswith("layernorm") else {})}


@pytest.mark.parametrize("model_type, path", CASES, ids=lambda x: x)
def test_what_is_around_a_module_runs(model_type, path):
    base = make(model_type, num_hidden_layers=1, tie_word_embeddings=False)
    full = path if path.startswith(("lm_head", "model.")) else f"model.layers.0.{path}"
    without = loss_and_gradients(copy.deepcopy(base))["loss"]
    for name, change in changes_for(path).items():
        models = [copy.deepcopy(base) for _ in range(3)]
        for order, model in zip(("", "before", "after"), models):
            if order == "after":
                tigon.transformers.apply_to(model, linear=True)
            torch.manual_seed(1)
            change(model.get_submodule(full))
            if order == "before":
                tigon.transformers.apply_to(model, linear=True)
        expected, *found = map(loss_and_gradients, models)
        assert name.startswith(("backward", "spectral", "pruned")) or not torch.isclose(expected["loss"], without, rtol=1e-6), name
        for order, f in zip(("before", "after"), found):
            same(f, expected, f"{name} {order}")
        clear_global_hooks()


ADAPTERS = {
    "LoRA": lambda peft, target: peft.LoraConfig(r=4, target_modules=target),
    "DoRA": lambda peft, target: peft.LoraConfig(r=4, target_modules=target, use_dora=True),
    "IA3": lambda peft, target: peft.IA3Config(target_modules=target, feedforward_modules=[t for t in target if t in ("down_proj", "lm_head")]),
    "LoHa": lambda peft, target: peft.LoHaConfig(r=4, target_modules=target),
    "AdaLoRA": lambda peft, target: peft.AdaLoraConfig(init_r=4, target_r=2, total_step=10, target_modules=target),
    "C3A": lambda peft, target: peft.C3AConfig(block_size=4, target_modules=target),
    "GraLoRA": lambda peft, target: peft.GraloraConfig(r=4, target_modules=target),
    "modules_to_save": lambda peft, target: peft.LoraConfig(r=4, target_modules=["v_proj"], modules_to_save=target),
}


def adapted(peft, model, config):
    torch.manual_seed(3)
    model = peft.get_peft_model(model, config)
    for name, p in sorted(model.named_parameters()):
        if p.requires_grad:
            p.data.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(len(name))), alpha=0.2)
    return model


@pytest.mark.parametrize("target", ("lm_head", "gate_proj", "up_proj", "down_proj", "q_proj", "post_attention_layernorm"))
def test_adapters(target):
    peft = pytest.importorskip("peft")
    base = make("llama", num_hidden_layers=1, tie_word_embeddings=False)
    for name, config in ADAPTERS.items():
        if target.endswith("norm") and name != "modules_to_save":
            continue
        expected = loss_and_gradients(adapted(peft, copy.deepcopy(base), config(peft, [target])))
        trained = [p for p in expected if expected[p] is not None and p != "loss"]
        assert any(target in p for p in trained), name
        patched = tigon.transformers.apply_to(copy.deepcopy(base), linear=True)
        same(loss_and_gradients(adapted(peft, patched, config(peft, [target]))), expected, f"{name} after")
        model = adapted(peft, copy.deepcopy(base), config(peft, [target]))
        assert tigon.transformers.apply_to(model, linear=True) is model
        assert runs_tigon(model)
        same(loss_and_gradients(model), expected, f"{name} before")


def offload(accelerate, how, model, folder):
    cpu = torch.device("cpu")
    if how == "cpu_offload":
        return accelerate.cpu_offload(model, execution_device=cpu)
    if how == "disk_offload":
        return accelerate.disk_offload(model, folder, execution_device=cpu)
    return accelerate.dispatch_model(model, {"model": "cpu", "lm_head": "disk"}, main_device="cpu", offload_dir=folder, force_hooks=True)


@torch.no_grad()
@pytest.mark.parametrize("how", ("cpu_offload", "disk_offload", "device_map"))
@pytest.mark.parametrize("model_type", ("llama", "gemma2", "qwen3_moe"))
def test_offload(model_type, how, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    plain = make(model_type, num_hidden_layers=1)
    expected = [plain.eval()(**BASE).logits, plain.train()(**BASE).loss]
    for first in ("apply_to", "offload"):
        model = copy.deepcopy(plain)
        for step in (0, 1):
            if (first == "apply_to") == (step == 0):
                tigon.transformers.apply_to(model)
            else:
                offload(accelerate, how, model, str(tmp_path / first))
        assert runs_tigon(model)
        same([model.eval()(**BASE).logits, model.train()(**BASE).loss], expected, f"{first} first")
        accelerate.hooks.remove_hook_from_submodules(model)


class Operators(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "tigon":
            self.names.add(function.__name__.partition(".")[0].removesuffix("_forward"))
        return function(*args, **(kwargs or {}))


def runs_tigon(model):
    """Names of Tigon's operators in a step."""
    with Operators() as operators, torch.no_grad():
        model.train()(**BASE)
    return operators.names


ALL = {"rms_norm", "fused_add_rms_norm", "rope", "swiglu", "gemm", "flash_attention", "fused_linear_cross_entropy", "embedding"}


def saved(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "torch.save": saved,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "pickle of protocol 0": lambda model: pickle.loads(pickle.dumps(model, 0)),
    "apply_to again": lambda model: tigon.transformers.apply_to(model, attention=True, linear=True),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_patched(name):
    model = tigon.transformers.apply_to(make("llama"), attention=True, linear=True)
    expected = loss_and_gradients(model)
    assert runs_tigon(model) == ALL
    again = COPIES[name](model)
    assert runs_tigon(again) == ALL
    assert all(type(a) is type(b) for a, b in zip(again.modules(), model.modules()))
    same(loss_and_gradients(again), expected, name)


def test_options_are_those_of_the_last_call():
    plain = make("llama")
    model = tigon.transformers.apply_to(copy.deepcopy(plain), attention=True, linear=True)
    others = dict.fromkeys(("rms_norm", "rope", "mlp", "fused_linear_cross_entropy", "attention", "embedding"), False)
    tigon.transformers.apply_to(model, **others)
    assert not runs_tigon(model)
    assert [type(m) for m in model.modules()] == [type(m) for m in plain.modules()]


def test_a_class_of_ones_own():
    """A class that inherits a forward has the patch; one that has a forward of its own keeps it."""
    module = importlib.import_module("transformers.models.llama.modeling_llama")

    class Own(module.LlamaMLP):
        def forward(self, x):
            return 2 * super().forward(x)

    class Inheriting(module.LlamaMLP):
        pass

    plain = make("llama")
    plain.model.layers[0].mlp.__class__, plain.model.layers[1].mlp.__class__ = Own, Inheriting
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    assert type(ours.model.layers[0].mlp) is Own
    assert type(ours.model.layers[1].mlp) is not Inheriting
    same(loss_and_gradients(ours), loss_and_gradients(plain), "")


def test_a_loss_of_ones_own():
    plain = make("llama")
    plain.loss_function = lambda logits, labels, **unused: logits.square().mean()
    ours = tigon.transformers.apply_to(copy.deepcopy(plain))
    same(loss_and_gradients(ours), loss_and_gradients(plain), "")


def test_what_is_no_model_of_transformers_is_refused():
    model = make("llama")
    for wrapped in (torch.compile(model), nn.DataParallel(model), nn.Linear(2, 2)):
        with pytest.raises(TypeError, match=f"{type(wrapped).__name__}.*before"):
            tigon.transformers.apply_to(wrapped)
    model.forward = lambda *args, **kwargs: None
    with pytest.warns(UserWarning, match="LlamaForCausalLM"):
        tigon.transformers.apply_to(model)


def test_a_trace_of_torch_fx_has_the_operators():
    ours = tigon.transformers.apply_to(make("llama"))
    for path, operator in (("layers.0.mlp", "swiglu"), ("norm", "rms_norm")):
        module = ours.model.get_submodule(path)
        traced = torch.fx.symbolic_trace(module)
        assert any(operator in str(node.target) for node in traced.graph.nodes), path
        x = torch.randn(2, 3, 32)
        torch.testing.assert_close(traced(x), module(x))


def test_replicas():
    """A replica, as DataParallel makes them, computes with its own parameters."""
    ours = tigon.transformers.apply_to(make("llama"), linear=True)
    replica = ours.model.norm._replicate_for_data_parallel()
    replica.weight = torch.zeros(32)
    assert (replica(torch.randn(2, 32)) == 0).all()


@pytest.mark.parametrize("reentrant", (True, False))
def test_gradient_checkpointing(reentrant):
    plain = make("qwen3")
    ours = tigon.transformers.apply_to(copy.deepcopy(plain), attention=True, linear=True)
    for model in (plain, ours):
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        model.enable_input_require_grads()
    same(loss_and_gradients(ours, use_cache=False), loss_and_gradients(plain, use_cache=False), "")


def test_a_norm_of_another_type():
    """Norms in f32 amid a model of 16 bits, as PEFT makes them for quantised ones: the types that transformers gives."""
    for model_type in ("llama", "gemma"):
        plain = make(model_type).bfloat16()
        ours = tigon.transformers.apply_to(copy.deepcopy(plain))
        for kind in (torch.float32, torch.bfloat16):
            for x in (torch.randn(2, 32), torch.randn(2, 32, dtype=torch.bfloat16)):
                found, expected = (m.model.norm.to(kind)(x) for m in (ours, plain))
                assert found.dtype == expected.dtype
                torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


def test_compiled_whole():
    """In one graph, for two lengths of which the second is of any size, with the values of the eager run."""
    ours = tigon.transformers.apply_to(make("llama", num_hidden_layers=1), attention=True, linear=True)
    torch._dynamo.reset()
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for n in (6, 9):
        call = {"input_ids": IDS[:, :n], "labels": IDS[:, :n]}
        expected = loss_and_gradients(ours, **call)
        ours.zero_grad()
        out = compiled(**call)
        out.loss.backward()
        same({"loss": out.loss.detach(), **{name: p.grad for name, p in ours.named_parameters()}}, expected, n)


@pytest.mark.parametrize("kind", ["llama", "phi3"])
def test_gradients_of_gradients(kind):
    """Of each operator of a patched model, an error that names it."""
    ours = tigon.transformers.apply_to(make(kind)).train()
    for name, module in (("rms_norm", ours.model.norm), ("of a patched model", ours.model.layers[0].mlp)):
        x = torch.randn(2, 3, 32, requires_grad=True)
        gradient, = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
        with pytest.raises(NotImplementedError, match=name):
            gradient.square().sum().backward()
    gradient = torch.autograd.grad(ours(**BASE).loss, ours.lm_head.weight, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="there is no gradient of its gradient"):
        gradient.square().sum().backward()
