"""tigon.torch.flash_attention with packed rows, windows, sinks, a soft cap, a bias and dropout, against its definition in PyTorch's f64."""
import functools

import pytest
import torch
import torch.utils.checkpoint

import tigon.torch


def sees(queries, keys, causal, window_left, window_right):
    """Which keys a query sees; the last query is beside the last key."""
    own = torch.arange(queries)[:, None] + keys - queries
    key = torch.arange(keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if window_left is not None:
        seen &= key >= own - window_left
    if window_right is not None:
        seen &= key <= own + window_right
    return seen & (key <= own) if causal else seen


def attend(q, k, v, bias=None, sinks=None, scale=None, causal=False, window_left=None, window_right=None, softcap=None, factors=1):
    """Of one sequence, with all scores in memory."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = (q.shape[-1] ** -0.5 if scale is None else scale) * q @ k.transpose(2, 3)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(~sees(q.shape[2], k.shape[2], causal, window_left, window_right), -torch.inf)
    if sinks is None:
        p = torch.nan_to_num(scores.softmax(-1))
    else:
        p = torch.cat((scores, sinks[:, None, None].expand(*scores.shape[:3], 1)), -1).softmax(-1)[..., :-1]
    return (p * factors @ v).transpose(1, 2)


def packed(q, k, v, cu_seqlens_q, cu_seqlens_k, **options):
    """Sequence by sequence; rows behind the last boundary are 0."""
    y = 0 * (q.sum() + k.sum() + v.sum()) + q.new_zeros(*q.shape[:3], v.shape[-1])
    parts = [(slice(a, b), slice(c, d)) for a, b, c, d in zip(cu_seqlens_q, cu_seqlens_q[1:], cu_seqlens_k, cu_seqlens_k[1:])]
    return torch.cat([attend(q[:, a], k[:, b], v[:, b], **options) for a, b in parts] + [y[:, cu_seqlens_q[-1]:]], 1)


def heads(batches, rows, heads, width):
    return torch.randn(batches, rows, heads, width)


def bound(dtype):
    return {torch.float32: {"rtol": 2e-5, "atol": 2e-5}, torch.bfloat16: {"rtol": 4e-2, "atol": 4e-2}}[dtype]


def compare(ours, theirs, tensors, dtype):
    """Results and gradients: ours(**tensors) in a type against theirs(**tensors) in f64."""
    given = {n: t.to(dtype).requires_grad_() if t.is_floating_point() else t for n, t in tensors.items()}
    wide = {n: t.detach().double().requires_grad_() if t.is_floating_point() else t for n, t in given.items()}
    y, expected = ours(**given), theirs(**wide)
    torch.testing.assert_close(y.double(), expected, **bound(dtype))
    dy = torch.randn(y.shape).to(dtype)
    wanted = [n for n, t in given.items() if t.is_floating_point()]
    found = torch.autograd.grad(y, [given[n] for n in wanted], dy)
    for n, gradient, truth in zip(wanted, found, torch.autograd.grad(expected, [wide[n] for n in wanted], dy.double())):
        torch.testing.assert_close(gradient.double(), truth, msg=lambda text, n=n: f"d{n}: {text}", **bound(dtype))


OPTIONS = {
    "window": {"causal": True, "window_left": 5},
    "own key alone": {"window_left": 0, "window_right": 0},
    "both sides": {"window_left": 3, "window_right": 2},
    "soft cap": {"softcap": 1.5, "scale": 2.0},
    "all": {"causal": True, "window_left": 30, "softcap": 5.0, "scale": 0.5},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("queries, keys, dtype", [(1, 70, torch.float32), (130, 150, torch.bfloat16), (40, 40, torch.float32), (9, 4, torch.float32)])
def test_options(queries, keys, options, dtype):
    torch.manual_seed(0)
    tensors = {"q": heads(2, queries, 4, 8), "k": heads(2, keys, 2, 8), "v": heads(2, keys, 2, 12), "sinks": torch.randn(4)}
    for given in (tensors, {n: t for n, t in tensors.items() if n != "sinks"}):
        compare(lambda **t: tigon.torch.flash_attention(**t, **options), lambda **t: attend(**t, **options), given, dtype)


@pytest.mark.parametrize("options, dtype", [({}, torch.float32), ({"causal": True}, torch.bfloat16),
                                            ({"causal": True, "window_left": 20, "softcap": 3.0}, torch.float32)], ids=str)
@pytest.mark.parametrize("bounds_q, bounds_k", [
    ([0, 5, 5, 130, 131], [0, 5, 9, 134, 135]), ([0, 40], [0, 33]), ([0], [0]), ([0, 3, 9], [0, 9, 9]), ([0, 200, 203, 210], [0, 200, 203, 210])])
def test_packed(bounds_q, bounds_k, options, dtype):
    torch.manual_seed(1)
    tensors = {"q": heads(1, 212, 4, 8), "k": heads(1, 215, 2, 8), "v": heads(1, 215, 2, 12)}
    bounds = {"cu_seqlens_q": torch.tensor(bounds_q), "cu_seqlens_k": torch.tensor(bounds_k, dtype=torch.int32)}
    compare(lambda **t: tigon.torch.flash_attention(**t, **bounds, **options),
            lambda **t: packed(**t, cu_seqlens_q=bounds_q, cu_seqlens_k=bounds_k, **options), tensors, dtype)


@pytest.mark.parametrize("shape", [(2, 4, 33, 50), (1, 4, 33, 50), (2, 1, 1, 50), (1, 1, 33, 50)], ids=str)
def test_bias(shape):
    torch.manual_seed(2)
    tensors = {"q": heads(2, 33, 4, 8), "k": heads(2, 50, 4, 8), "v": heads(2, 50, 4, 8)}
    bias = torch.randn(shape)
    mask = torch.rand(shape) < 0.7
    hidden = torch.where(mask, 0.0, -torch.inf)
    for given, same in ((bias, bias.double()), (mask, hidden.double()), (hidden, hidden.double())):
        compare(lambda **t: tigon.torch.flash_attention(**t, bias=given), lambda **t: attend(**t, bias=same), tensors, torch.float32)


@pytest.mark.parametrize("options, dtype", [({"causal": True}, torch.float32), ({"causal": True, "window_left": 15}, torch.bfloat16)], ids=str)
def test_lengths(options, dtype):
    """Sequences without rows, of one row, and of powers of two and their neighbours; fewer queries than keys, and more."""
    torch.manual_seed(7)
    lengths = torch.tensor([0, 1, 0, *(2**k + d for k in range(1, 8) for d in (-1, 0, 1))])
    for q, k in ((lengths, lengths), (lengths.minimum(torch.tensor(3)), lengths), (lengths, lengths.flip(0))):
        bounds = [torch.nn.functional.pad(n.cumsum(0), (1, 0)) for n in (q, k)]
        tensors = {"q": heads(1, bounds[0][-1], 4, 8), "k": heads(1, bounds[1][-1], 2, 8), "v": heads(1, bounds[1][-1], 2, 8)}
        compare(lambda **t: tigon.torch.flash_attention(**t, cu_seqlens_q=bounds[0], cu_seqlens_k=bounds[1], **options),
                lambda **t: packed(**t, cu_seqlens_q=bounds[0].tolist(), cu_seqlens_k=bounds[1].tolist(), **options), tensors, dtype)


def test_a_bias_has_no_gradient():
    q = heads(1, 3, 2, 8)
    bias = torch.zeros(1, 2, 3, 3, requires_grad=True)
    with pytest.raises(ValueError, match="bias needs a gradient"):
        tigon.torch.flash_attention(q, q, q, bias=bias)
    with torch.no_grad():
        tigon.torch.flash_attention(q, q, q, bias=bias)


def test_what_is_not_seen_does_not_count():
    """NaN where no query looks, and in queries that see nothing, changes no bit."""
    torch.manual_seed(3)
    q, k, v = heads(1, 150, 2, 8), heads(1, 150, 2, 8), heads(1, 150, 2, 8)
    calls = [  # options, queries that see no key, keys that no query sees
        ({"cu_seqlens_q": torch.tensor([0, 40, 140]), "cu_seqlens_k": torch.tensor([0, 30, 130])}, slice(140, 150), slice(130, 150), 150),
        ({"causal": True, "window_left": 9}, slice(0, 0), slice(0, 90), 50),
        ({"causal": True, "window_left": 9}, slice(0, 0), slice(0, 139), 2),
        ({"cu_seqlens_q": torch.tensor([0, 2, 5]), "cu_seqlens_k": torch.tensor([0, 30, 130])}, slice(5, 6), slice(130, 150), 6),
        ({"causal": True, "window_left": 9, "dropout": 0.5, "seed": 1}, slice(0, 0), slice(0, 90), 50),
    ]
    for options, blind, unseen, queries in calls:
        results = []
        for spoil in (False, True):
            inputs = [q[:, :queries].clone(), k.clone(), v.clone()]
            dy = torch.ones(1, queries, 2, 8)
            if spoil:
                inputs[0][:, blind], inputs[1][:, unseen], inputs[2][:, unseen], dy[:, blind] = (torch.nan,) * 4
            inputs = [x.requires_grad_() for x in inputs]
            y = tigon.torch.flash_attention(*inputs, **options)
            results.append([y, *torch.autograd.grad(y, inputs, dy)])
        for clean, spoilt in zip(*results):
            assert torch.equal(clean, spoilt)


def test_wrong_calls():
    q = heads(1, 6, 2, 8)
    bounds = torch.tensor([0, 3, 6])
    for options, message in (
            ({"cu_seqlens_q": bounds}, "cu_seqlens"), ({"cu_seqlens_q": bounds, "cu_seqlens_k": bounds + 1}, r"cu_seqlens_k\[0\] is 1"),
            ({"cu_seqlens_q": bounds, "cu_seqlens_k": torch.tensor([0, 4, 3])}, r"cu_seqlens_k\[2\] is 3"),
            ({"window_left": -2}, "window_left is -2"), ({"softcap": -1.0}, "softcap is -1"), ({"dropout": 1.0}, "dropout is 1"),
            ({"dropout": 0.5, "offset": -1}, "offset is -1")):
        with pytest.raises(ValueError, match=message):
            tigon.torch.flash_attention(q, q, q, **options)
    with pytest.raises(ValueError, match="q has 2 batches, expected 1"):
        tigon.torch.flash_attention(q.expand(2, -1, -1, -1), *[q.expand(2, -1, -1, -1)] * 2, bounds, bounds)


def factors(shape_q, shape_k, **options):
    """What dropout multiplies probabilities by, [B, S, H, L]: queries and keys are 0, values rows of the unit matrix."""
    (batches, queries, n), keys = shape_q, shape_k[1]
    q, k = torch.zeros(batches, queries, n, 4), torch.zeros(batches, keys, n, 4)
    return keys * tigon.torch.flash_attention(q, k, torch.eye(keys)[None, :, None].expand(batches, -1, n, -1), **options)


@pytest.mark.parametrize("options, dtype", [({}, torch.float32), ({"causal": True}, torch.bfloat16), ({"window_left": 60, "softcap": 3.0}, torch.float32)])
def test_dropout(options, dtype):
    torch.manual_seed(5)
    tensors = {"q": heads(2, 130, 4, 8), "k": heads(2, 150, 4, 8), "v": heads(2, 150, 4, 12), "sinks": torch.randn(4)}
    drawn = {"dropout": 0.3, "seed": 11, "offset": 2}
    m = factors((2, 130, 4), (2, 150), **drawn).transpose(1, 2).double()
    assert abs((m == 0).double().mean() - 0.3) < 0.01
    assert (factors((2, 130, 4), (2, 150), dropout=0.3, seed=11, offset=3).transpose(1, 2) != m).any()
    compare(lambda **t: tigon.torch.flash_attention(**t, **options, **drawn),
            lambda **t: attend(**t, **options, factors=m), tensors, dtype)


def test_seeds_are_drawn():
    """By PyTorch's generator, anew for each call; the module drops in training alone."""
    q = heads(1, 20, 2, 8)
    results = []
    for call in (lambda: tigon.torch.flash_attention(q, q, q, dropout=0.5), lambda: tigon.torch.FlashAttention(dropout=0.5)(q, q, q)):
        for _ in range(2):
            torch.manual_seed(6)
            results.append(torch.stack([call(), call()]))
    assert all(torch.equal(r, results[0]) for r in results) and not torch.equal(*results[0])
    assert torch.equal(tigon.torch.FlashAttention(dropout=0.5).eval()(q, q, q), tigon.torch.flash_attention(q, q, q))
    assert torch.equal(*(tigon.torch.flash_attention(q, q, q, dropout=0.5, seed=s) for s in (3, torch.tensor(3))))


def test_dropout_is_compiled():
    """A compiled program draws anew each time that it runs, and its backward drops what its forward did: y is linear in v."""
    def step(q, k, v):
        return tigon.torch.flash_attention(q, k, v, causal=True, dropout=0.5)

    q, k, v = (heads(1, 40, 2, 8).requires_grad_() for _ in range(3))
    dy = torch.randn_like(v)
    checkpointed = functools.partial(torch.utils.checkpoint.checkpoint, step, use_reentrant=False)
    for function in (step, torch.compile(step, backend="aot_eager", fullgraph=True), checkpointed):
        first, second = function(q, k, v), function(q, k, v)
        assert not torch.equal(first, second)
        for y in (first, second):
            dv, = torch.autograd.grad(y, v, dy)
            torch.testing.assert_close((dv * v).sum(), (y * dy).sum())


def test_compiled():
    torch.manual_seed(4)
    bounds = torch.tensor([0, 4, 9, 9, 12])
    mask = torch.ones(12, 12, dtype=torch.bool).tril()[None, None]

    def step(q, k, v, sinks):
        y = tigon.torch.flash_attention(q, k, v, bounds, bounds, sinks=sinks, causal=True, window_left=3, softcap=2.0)
        return y + tigon.torch.flash_attention(q, k, v, bias=mask)

    inputs = [heads(1, 12, 4, 8), heads(1, 12, 2, 8), heads(1, 12, 2, 8), torch.randn(4)]
    inputs = [x.requires_grad_() for x in inputs]
    results = []
    for function in (step, torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)):
        y = function(*inputs)
        results.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    for eager, compiled in zip(*results):
        torch.testing.assert_close(eager, compiled)


def test_one_long_document_beside_many_short_ones():
    lengths = [30000] + [60] * 500
    begins = torch.tensor([0, *lengths]).cumsum(0)
    torch.manual_seed(11)
    q, k, v, dy = (torch.randn(1, int(begins[-1]), 1, 8) for _ in range(4))
    options = {"causal": True, "window_left": 64}

    def run(*given, **more):
        given = [x.clone().requires_grad_() for x in given]
        y = tigon.torch.flash_attention(*given[:3], **options, **more)
        return y, *torch.autograd.grad(y, given[:3], given[3].detach())

    whole = run(q, k, v, dy, cu_seqlens_q=begins, cu_seqlens_k=begins)
    for i in (0, 1, 250, 500):
        part = slice(int(begins[i]), int(begins[i + 1]))
        for found, expected in zip(whole, run(*(x[:, part] for x in (q, k, v, dy)))):
            torch.testing.assert_close(found[:, part], expected, atol=1e-5, rtol=1e-5)
