"""tigon.batch_invariant(): rows do not know their batch, for as long as it is set, in all threads."""
import threading

import torch

import tigon
from tigon import ops


def product(x, weight):
    return ops.gemm(x, weight, c=torch.empty(len(x), len(weight), dtype=x.dtype), trans_b=True)


def test_rows_are_the_same_alone():
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.randn(67, 384).to(dtype), torch.randn(200, 384).to(dtype)
        with tigon.batch_invariant():
            whole = product(x, weight)
            assert "onednn" not in tigon.last_impl() and "blas" not in tigon.last_impl()
            for row in (0, 33, 66):
                assert torch.equal(product(x[row : row + 1], weight)[0], whole[row])


def test_attention_of_one_query():
    torch.manual_seed(2)
    q, k, v = torch.randn(3, 150, 4, 64), torch.randn(3, 150, 2, 64), torch.randn(3, 150, 2, 64)
    with tigon.batch_invariant():
        whole = ops.flash_attention_forward(q, k, v, causal=True)
        for t in (0, 1, 95, 96, 149):
            one = ops.flash_attention_forward(q[1:2, t : t + 1], k[1:2, : t + 1], v[1:2, : t + 1], causal=True)
            assert torch.equal(one[0, 0], whole[1, t])


def test_it_ends_and_reaches_threads():
    found = {}

    def run(name):
        product(torch.randn(64, 64), torch.randn(64, 64))
        found[name] = tigon.last_impl()

    def in_thread(name):
        thread = threading.Thread(target=run, args=(name,))
        thread.start()
        thread.join()

    run("before")
    with tigon.batch_invariant():
        run("inside")
        in_thread("thread")
        with tigon.batch_invariant(False):
            run("without")
        run("inside again")
    run("after")
    assert found["before"] == found["after"] == found["without"]
    assert found["inside"] == found["inside again"] == found["thread"]
    assert "onednn" not in found["inside"]
