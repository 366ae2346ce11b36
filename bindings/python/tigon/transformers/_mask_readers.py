"""Which models hand their masks on to attention as they are, and which compute with them on the way: the latter know PyTorch's masks alone."""
import ast
import builtins
import functools
import inspect
import textwrap

from transformers import PreTrainedModel

from tigon.transformers._plain import behind, original

MASK = "attention_mask"


def _is_of_no_matter(node):
    """Does this node ask whether there is a mask, or run for attention that is written out?"""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
    return isinstance(node, ast.If) and any("eager" in n.id for n in ast.walk(node.test) if isinstance(n, ast.Name))


def _uses(node):
    """Nodes around a use of the mask."""
    children = () if _is_of_no_matter(node) else ast.iter_child_nodes(node)
    for child in children:
        if isinstance(child, ast.Name) and child.id == MASK and isinstance(child.ctx, ast.Load):
            yield node
        yield from _uses(child)


def _is_handed_on(call, cls, names):
    """Is this a call of a module, or of what a variable stands for, such as a layer or an implementation of attention?"""
    function = call.func if isinstance(call, ast.Call) else None
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        return not hasattr(cls, function.attr)
    if not isinstance(function, ast.Name):
        return False
    return function.id not in names or function.id.startswith("create_")  # of the mask that a program gives


@functools.lru_cache(maxsize=None)
def _only_hands_on(cls):
    """Does the forward of a class do nothing with its mask but call others with it?"""
    forward = inspect.unwrap(cls.forward)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(forward)))
    except (OSError, TypeError, SyntaxError):
        return False
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    calls = [parents[node] if isinstance(node, ast.keyword) else node for node in _uses(tree)]
    return all(_is_handed_on(call, cls, {*forward.__globals__, *vars(builtins)}) for call in calls)


_asked: dict = {}  # a class of attention: reader_in() of it


def check(attention):
    """An error where attention that was asked for by name has a mask that it, or a module within, computes with."""
    cls = type(attention)
    if cls not in _asked:
        _asked[cls] = reader_in(attention)
    if _asked[cls] is not None:
        raise ValueError(f"{_asked[cls]} computes with its mask: take another attn_implementation than \"tigon\" for this model")


def reader_in(model):
    """The name of a class within a model that computes with the mask that it is given; None if there is none."""
    for module in model.modules():
        cls = original(behind(type(module)))
        if not isinstance(module, PreTrainedModel) and MASK in inspect.signature(cls.forward).parameters and not _only_hands_on(cls):
            return cls.__name__
    return None
