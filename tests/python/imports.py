"""`import tigon` is quick: it loads none of the frameworks whose tensors it takes, and nothing that takes long."""
import subprocess
import sys

LIMIT = 0.05  # seconds that it may take on a processor
SLOW = ("torch", "numpy", "jax", "cupy", "transformers", "asyncio", "inspect", "typing", "ctypes")
PROGRAM = """
import sys, time
before, start = set(sys.modules), time.process_time()
import tigon
print(time.process_time() - start, *sorted(set(sys.modules) - before))
"""

runs = [subprocess.run([sys.executable, "-S", "-c", PROGRAM], check=True, capture_output=True, text=True).stdout.split() for _ in range(5)]
seconds = min(float(r[0]) for r in runs)
loaded = [m for m in runs[0][1:] if m in SLOW]
print(f"import tigon: {1e3 * seconds:.1f} ms, {len(runs[0]) - 1} modules")
if loaded or seconds > LIMIT:
    sys.exit(f"import tigon takes {1e3 * seconds:.1f} ms, expected {1e3 * LIMIT:.0f}, and loads {', '.join(loaded) or 'nothing slow'}")
