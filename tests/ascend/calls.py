"""scripts/cann_calls.py finds what it is there for: headers that differ from the list, a kernel's call that the list or the headers
lack. The headers here are written from the list.

  calls.py SOURCE_DIR
"""
import contextlib
import io
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, sys.argv[1] + "/scripts")
import cann_calls as calls  # noqa: E402

signatures, macros, inner = calls.read_list()
failures = 0


def expect(holds, what):
    global failures
    if not holds:
        print("FAILED:", what)
        failures += 1


def run(function, *arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = function(*arguments)
    return status, said.getvalue()


def write_headers(folder, declared, bodies):
    """As CANN's lie: public declarations, and a body of each that 2201 has."""
    def text_of(inside):
        return "".join("__aicore__ " + calls.declare(s, ";") for s in sorted(declared) if (s[0] in inner) == inside)
    text = text_of(False) + "namespace its_own {\n" + text_of(True) + "}\n"
    text += "".join(f"__aicore__ inline void {name}();\n" for name in sorted(calls.read_absent()))
    calls.write(folder / "include/c_api/all.h", "#pragma once\n" + text)
    named = "".join(f"#define {name}({', '.join('abc'[:n])})\n" for name, n in sorted(macros))
    calls.write(folder / "include/c_api/sync/sync.h", named)
    calls.write(folder / calls.BODIES / "all_impl.h", "".join("__aicore__ " + calls.declare(s, " { }") for s in sorted(bodies)))


with tempfile.TemporaryDirectory() as name:
    work = Path(name)
    write_headers(work, signatures, signatures)
    status, said = run(calls.check_list, work)
    expect(status == 0, "headers as the list has them: " + said)

    lost = ("asc_add", "void", ("__ubuf__ half*", "__ubuf__ half*", "__ubuf__ half*", "uint32_t"))
    new = ("asc_add", "void", ("__ubuf__ double*", "__ubuf__ double*", "__ubuf__ double*", "uint32_t"))
    expect(lost in signatures, "the list lacks asc_add of half")
    write_headers(work, signatures | {new}, (signatures | {new}) - {lost})
    status, said = run(calls.check_list, work)
    expect(status == 1 and len(said.splitlines()) == 2, said)
    expect("no body for 2201 of " + calls.told(lost) in said, said)
    expect("the list lacks " + calls.told(new) in said, said)

    write_headers(work, signatures, {s for s in signatures if s[0] != "asc_exp"})
    status, said = run(calls.check_list, work)
    expect("asc_exp has no body for 2201, and asc_absent.h lacks it" in said, said)

    kernel = work / "kernel.asc.c"
    clean = """#include "c_api/asc_simd.h"
extern "C" __global__ __vector__ void kernel(__gm__ float *x)
{
    __ubuf__ float *tile = (__ubuf__ float *)asc_get_phy_buf_addr(0);
    asc_copy_gm2ub_align(tile, x, 256);
    asc_sync_notify(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_sync_wait(PIPE_MTE2, PIPE_V, EVENT_ID0);
    asc_add(tile, tile, tile, 64);
    PLANTED
}
"""
    planted = {
        "": "",
        "asc_store_dev((__gm__ int32_t *)x, 1);": "asc_store_dev",
        "int32_t n = asc_float2int32_rn(2.0f);": "asc_float2int32_rn",
        "asc_add(tile, x, tile, 64);": "asc_add",
        "asc_add((__ubuf__ uint8_t *)tile, (__ubuf__ uint8_t *)tile, (__ubuf__ uint8_t *)tile, 64);": "asc_add",
        "asc_dcci_single((__gm__ void *)x);": "asc_dcci_single",
        "float *plain = tile;": "__ubuf__ float *",
        "float r = sqrtf(2.0f);": "sqrtf",
    }
    for line, word in planted.items():
        calls.write(kernel, clean.replace("PLANTED", line))
        status, said = run(calls.check_kernels, [kernel], None)
        if status == calls.SKIPPED:
            print(said, end="")
            break
        expect(status == (1 if line else 0) and word in said, f"{line}: {said}")

print("%d failures" % failures if failures else "all found")
sys.exit(1 if failures else 0)
