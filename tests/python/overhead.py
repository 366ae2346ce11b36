"""What a call from Python costs above tg_call(), outputs given, in nanoseconds.
    overhead.py PROGRAM [LIMIT]     PROGRAM: of overhead.c; LIMIT: more than this is a failure
"""
import subprocess
import sys
import timeit

import torch

import tigon.ops

CALLS, RUNS = 10000, 100


def least(statement, names):
    return min(timeit.repeat(statement, number=CALLS, repeat=RUNS, globals=names)) / CALLS * 1e9


def main(program, limit="inf"):
    x, weight, y, rstd = torch.randn(1, 8), torch.ones(8), torch.empty(1, 8), torch.empty(1)
    names = {"f": tigon.ops.rms_norm_forward, "x": x, "w": weight, "y": y, "r": rstd}
    inside = float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    python = least("f(x, w, y=y, rstd=r, eps=1e-6)", names)
    print(f"tg_call {inside:.0f} ns; from Python {python:.0f} ns, {python - inside:.0f} more; outputs made {least('f(x, w)', names):.0f} ns")
    return python - inside > float(limit)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
