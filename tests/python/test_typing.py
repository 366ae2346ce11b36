"""The stubs of the package: they say what the functions and modules are, and programs that use them pass mypy, strict as well."""
import ast
import inspect
import os
import subprocess
import sys

import pytest

import tigon
import tigon.liger.ops
import tigon.torch as tt
from tigon.liger.transformers import functional as liger

PACKAGE = os.path.dirname(tigon.__file__)

# As much of PyTorch as the stubs name: reading its own takes mypy most of a minute.
TORCH = {
    "torch/__init__.pyi": "from torch import distributed as distributed, nn as nn, optim as optim\nclass dtype: ...\nclass device: ...\n"
                          "class Tensor:\n    def backward(self) -> None: ...\ndef ones(*sizes: int) -> Tensor: ...\n",
    "torch/nn.pyi": "from typing import Any, Iterator\nfrom torch import Tensor\nclass Parameter(Tensor): ...\n"
                    "class Module:\n    __call__: Any\n    def parameters(self) -> Iterator[Parameter]: ...\n"
                    "class Linear(Module):\n    def __init__(self, m: int, n: int, bias: bool = True) -> None: ...\n",
    "torch/optim.pyi": "class Optimizer: ...\n",
    "torch/distributed.pyi": "class ProcessGroup: ...\n",
}

PROGRAM = '''
import torch
import tigon
import tigon.torch as tt
from tigon import ops


def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    norm, both = tt.RMSNorm(8, eps=1e-6), tt.fused_add_rms_norm(x, x, w)
    optimizer = tt.AdamW(norm.parameters(), lr=1e-3, master=True)
    optimizer.step()
    tigon.check()
    tigon.sync()
    q, k = tt.rope(x, x, x, x)
    alone: torch.Tensor = tt.rope(x, None, x, x)
    loss: torch.Tensor = tt.cross_entropy(x, w, reduction="sum")
    loss, accuracy = tt.cross_entropy(x, w, accuracy=True)
    tt.vocab_parallel_fused_linear_cross_entropy(x, w, x).backward()
    tt.ExpertParallelMoE(8, 4, 2)(tt.expert_parallel_moe(x, w, w, x, x, experts=[1, 1]), x, x).backward()
    tt.ring_collect(tt.ring_attention(tt.ring_deal(x), x, x, causal=True))
    print(ops.rms_norm_forward(x, w), tigon.last_impl(), tigon.__version__, both[1], q, k, alone, accuracy)
    return norm(tt.gemm(tt.sum_rows(x), w, trans_b=True))
'''

MODELS = '''
from typing import Any, Dict
import torch
import tigon.transformers


def run(model: torch.nn.Module, batch: Dict[str, torch.Tensor]) -> float:
    patched: torch.nn.Module = tigon.transformers.apply_to(model, rope=False)
    found = tigon.transformers.profile(patched, batch, steps=2)
    states: Dict[str, str] = tigon.transformers.status(model)
    tigon.transformers.install()
    print(found, states)
    seconds: float = found["step"]
    return seconds
'''

WRONG = {
    'tt.rms_norm(x, eps="small")': 'Argument "eps" to "rms_norm" has incompatible type "str"',
    "tt.rms_norm(x, epsilon=1)": 'Unexpected keyword argument "epsilon" for "rms_norm"',
    "tt.rms_norms(x)": 'Module has no attribute "rms_norms"',
    "tt.group_norm(x)": 'Missing named argument "num_groups" for "group_norm"',
    "tt.Softmax(3)": 'Too many arguments for "Softmax"',
    "tt.swiglu(x, 1)": 'Argument 2 to "swiglu" has incompatible type "int"; expected "Tensor | None"',
}


def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "torch").mkdir()
    wrong = "import torch\nimport tigon.torch as tt\nx = torch.ones(3)\n" + "\n".join(WRONG)
    for name, text in {**TORCH, "program.py": PROGRAM, "wrong.py": wrong}.items():
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "MYPYPATH": os.path.dirname(PACKAGE), "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-site-packages", "--cache-dir", os.devnull, "program.py", "wrong.py"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    for number, ((_, words), line) in enumerate(zip(WRONG.items(), lines), 4):
        assert line.startswith(f"wrong.py:{number}: error: {words}")
    assert len(lines) == len(WRONG), done.stdout + done.stderr


def checked(tmp_path, command, text):
    (tmp_path / "torch").mkdir()
    for name, content in {**TORCH, "models.py": text}.items():
        (tmp_path / name).write_text(content)
    environment = {**os.environ, "MYPYPATH": os.path.dirname(PACKAGE), "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_models_mypy(tmp_path):
    """A program's own lines; what the package has within is not typed."""
    pytest.importorskip("mypy")
    command = ["mypy", "--strict", "--no-site-packages", "--follow-imports=silent", "--cache-dir", os.devnull, "models.py"]
    assert checked(tmp_path, command, MODELS)[1] == "Success: no issues found in 1 source file\n"
    (tmp_path / "wrong").mkdir()
    code, words = checked(tmp_path / "wrong", command, "import tigon.transformers\ntigon.transformers.profile(1, {}, steps='two')\n")
    assert code == 1 and 'Argument "steps" to "profile" has incompatible type "str"' in words


def arguments(node):
    """(name, is it by keyword alone, has it a default) of each."""
    a = node.args
    positional = [(x.arg, False, i >= len(a.args) - len(a.defaults)) for i, x in enumerate(a.args)]
    return positional + [(x.arg, True, d is not None) for x, d in zip(a.kwonlyargs, a.kw_defaults)]


def of_signature(function):
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind is p.KEYWORD_ONLY, p.default is not p.empty) for p in parameters]


def stub(name, folder="torch"):
    with open(os.path.join(PACKAGE, folder, f"{name}.pyi"), encoding="utf-8") as file:
        return ast.parse(file.read()).body


def test_functions_are_as_their_stubs_say():
    nodes = {n.name: n for n in stub("functional") + stub("parallel") + stub("ring") + stub("experts") + stub("fp8") if isinstance(n, ast.FunctionDef)}
    assert set(nodes) == {n for n, f in vars(tt).items() if inspect.isfunction(f)}
    for name, node in nodes.items():
        if name != "adamw":
            assert sorted(arguments(node)) == sorted(of_signature(getattr(tt, name))), name


def test_modules_are_as_their_stubs_say():
    nodes = {n.name: n for n in stub("modules") + stub("experts") + stub("fp8") if isinstance(n, ast.ClassDef) and n.name != "Module"}
    assert set(nodes) == {n for n, c in vars(tt).items() if inspect.isclass(c)}
    for name, node in nodes.items():
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        if "forward" in methods:
            assert arguments(methods["forward"]) == of_signature(getattr(tt, name).forward), name


def test_liger_is_as_its_stubs_say():
    names = [n.names[0].asname for n in stub("__init__", "liger/ops")]
    assert sorted(names) == tigon.liger.ops.__all__
    nodes = {n.name: n for n in stub("functional", "liger/transformers") if isinstance(n, ast.FunctionDef)}
    made = {n: f for n, f in vars(liger).items() if inspect.isfunction(f) and f.__module__ == liger.__name__}
    assert set(nodes) == set(made)
    for name, node in nodes.items():
        if name != "losses":
            assert arguments(node) == of_signature(made[name]), name


def test_mypy_knows_the_parameters_of_liger(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(
        "from tigon.liger.transformers import functional\nfrom tigon.liger.ops import LigerSiLUMulFunction, geglu_forward\n"
        "functional.liger_swiglu(1, 2)\nfunctional.liger_swiglu(1)\ngeglu_forward(1)\nfunctional.liger_swiglus(1)\n"
    )
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent",
                           "--cache-dir", os.devnull, "program.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "MYPYPATH": os.path.dirname(PACKAGE), "PYTHONPATH": ""})
    found = [line.partition(" error: ")[2].partition("  [")[0] for line in done.stdout.splitlines() if " error: " in line]
    assert found == ['Missing positional argument "b" in call to "liger_swiglu"',
                     'Missing positional argument "b" in call to "geglu_forward"',
                     'Module has no attribute "liger_swiglus"; maybe "liger_swiglu"?'], done.stdout + done.stderr
