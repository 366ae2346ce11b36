"""Contexts of devices: one for each device and stream, found in the same time however many there are, and given back.

    TIGON_BACKEND_PATH=libcore_mock_device.so streams.py    (it needs the standard library alone)
"""
import os
import time

import tigon
from tigon import ops
from tigon._check import Array

ASCEND, MOVED = 21, 1 << 60  # the mock device's memory is the host's, at addresses that are not


class OnDevice(Array):
    def __init__(self, card, values):
        super().__init__((1, len(values)), values)
        self.card = card
        tensor = self.managed.tensor
        tensor.data, tensor.device_type, tensor.device_id = tensor.data + MOVED, ASCEND, card

    def __dlpack_device__(self):
        return ASCEND, self.card


def call(x, y):
    ops.softmax_forward(x, y=y)
    assert tigon.last_impl() == "mock/softmax_forward.copy" and list(y.values) == list(x.values)


def call_on(card):
    call(OnDevice(card, [1.0, 2.0]), OnDevice(card, [0.0, 0.0]))


def time_of_a_call():
    x, y, least = OnDevice(0, [1.0, 2.0]), OnDevice(0, [0.0, 0.0]), 1.0
    for _ in range(10):
        begun = time.perf_counter()
        for _ in range(100):
            ops.softmax_forward(x, y=y)
        least = min(least, time.perf_counter() - begun)
    return least


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def many_at_once():
    few = time_of_a_call()
    for card in range(2000):
        call_on(card)
    many = time_of_a_call()
    assert many < 3 * few, f"{many} s for a hundred calls beside 2000 contexts, {few} s beside none"
    assert tigon.release(4096) == 0 and tigon.release(0) == 2000 and tigon.release() == 0
    assert tigon.last_impl() == ""  # its context has ended


def one_after_the_other():
    def pairs(count):
        for _ in range(count):
            call_on(7)
            assert tigon.release() == 1

    pairs(1000)
    before = resident()
    pairs(20000)
    assert resident() - before < 1 << 20, f"{resident() - before} bytes more"


def beside_the_host():
    """What has ended on a device is nothing to the calling thread's own context."""
    x, y = Array((1, 2), [0.0, 0.0]), Array((1, 2))
    ops.softmax_forward(x, y=y)
    call_on(1)
    ops.softmax_forward(x, y=y)
    assert tigon.release() == 1 and tigon.last_impl().startswith("cpu/softmax_forward") and y.values[0] == 0.5
    tigon.sync()


def refused():
    try:
        tigon.release("a stream")
    except TypeError:
        return
    raise AssertionError("a text is no stream")


many_at_once()
one_after_the_other()
beside_the_host()
refused()
