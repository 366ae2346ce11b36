"""Writes the folder of a kernel in the layout of Hugging Face's `kernels`, of a built extension and the package's files.

    write.py EXTENSION FOLDER [LIBRARY...]

FOLDER/build/<variant>/ gets the package, the extension and the libraries beside it; libtigon_cuda.so among them makes it a variant for
CUDA. The variant is one of PyTorch's stable ABI, since nothing here is linked with PyTorch. A name of modules and a namespace of operators
are this build's own, so that it and an installed `tigon`, or two versions of it, can be in one process: imports become relative ones.
"""
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "tigon"
ROOT = HERE.parents[2]
OLDEST_TORCH = "210"
LEFT_OUT = ("liger", "_check.py")


def sources():
    """Files of the kernel by their places in it: the package's, whose __init__ is _tigon.py here, and those of this folder."""
    files = {p.relative_to(PACKAGE): p for p in sorted(PACKAGE.rglob("*.py")) if p.relative_to(PACKAGE).parts[0] not in LEFT_OUT}
    files[Path("_tigon.py")] = files.pop(Path("__init__.py"))
    files.update({Path(p.name): p for p in sorted(HERE.glob("*.py")) if p.name != "write.py"})
    return files


def rewritten(text, place, namespace):
    """The text of a module of `tigon` as one of a package of any name."""
    up = "." * len(place.parts)
    text = re.sub(r"^(\s*)from tigon import ", rf"\1from {up} import ", text, flags=re.M)
    text = re.sub(r"^(\s*)from tigon\.([\w.]+) import ", rf"\1from {up}\2 import ", text, flags=re.M)
    text, count = re.subn(r"^(\s*)import tigon\.torch$", rf"\1from {up} import torch as tigon_torch", text, flags=re.M)
    if count:
        text = re.sub(r"(?<![\w\".])tigon\.torch\.", "tigon_torch.", text)
    text = text.replace("torch.ops.tigon", f"torch.ops.{namespace}").replace('"tigon::', f'"{namespace}::')
    return text.replace('_Library("tigon", "DEF")', f'_Library("{namespace}", "DEF")')


def refuse_what_is_left(place, text):
    """An import of another package `tigon` must not be left, nor an operator of another namespace."""
    left = re.search(r"^\s*(import tigon\b|from tigon\b).*|torch\.ops\.tigon\b|\"tigon::", text, flags=re.M)
    if left:
        sys.exit(f"write.py: {place} still has: {left.group().strip()}")


def digest(files, extension, libraries):
    sha = hashlib.sha256()
    for path in [*files.values(), extension, *libraries]:
        sha.update(path.read_bytes())
    return sha.hexdigest()[:8]


def cuda_version():
    found = re.search(r"release (\d+)\.(\d+)", subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout)
    return "".join(found.groups())


def variant_of(backend):
    backend = f"cu{cuda_version()}" if backend == "cuda" else backend
    return f"torch-stable-abi{OLDEST_TORCH}-{backend}-{platform.machine()}-{platform.system().lower()}"


def main(extension, folder, *libraries):
    extension, libraries = Path(extension), [Path(p) for p in libraries]
    files = sources()
    backend = "cuda" if any(p.name == "libtigon_cuda.so" for p in libraries) else "cpu"
    name = f"_tigon_{backend}_{digest(files, extension, libraries)}"
    out = Path(folder) / "build" / variant_of(backend)
    shutil.rmtree(out, ignore_errors=True)
    for place, path in files.items():
        text = rewritten(path.read_text(), place, name)
        refuse_what_is_left(place, text)
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text(text)
    for path in [extension, *libraries]:
        shutil.copy(path, out / path.name)
    (out / "_ops.py").write_text(f'import torch\n\nops = torch.ops.{name}\n\n\ndef add_op_namespace_prefix(op_name):\n'
                                 f'    return f"{name}::{{op_name}}"\n')
    metadata = {"id": name, "name": "tigon", "version": 1, "license": "Apache-2.0", "python-depends": [], "backend": {"type": backend}}
    (out / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
    shutil.copy(ROOT / "LICENSE", folder)
    shutil.copy(HERE / "README.md", folder)
    print(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
