#!/usr/bin/env python3
"""The calls that CANN documents for the kernels' architecture: sim/include/c_api/calls_2201.txt, and those that it lacks: asc_absent.h.

  cann_calls.py list FOLDER             holds the list against the public headers of asc-devkit in FOLDER
  cann_calls.py model                   holds the names that the model's headers offer against the list
  cann_calls.py kernels [FOLDER]        compiles every kernel as C++, with a kind of pointer for each memory, against the list's
                                        declarations or against FOLDER's own headers: a call that they lack is an error
  cann_calls.py source FILE [FOLDER]    that one file
  cann_calls.py headers                 `list` and `kernels` with the folder that TIGON_ASC_DEVKIT names; skipped if it names none

FOLDER has include/c_api and impl/c_api: a clone of asc-devkit, or the folder asc of an installed CANN. `kernels` needs clang++. What
can't be looked at is skipped: status 77.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cann_list import API, bare_type, read_absent, read_list, split_arguments

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "backends/ascend/kernels"
BODIES = "impl/c_api/instr_impl/npu_arch_2201"
SKIPPED = 77


# ---- asc-devkit's headers ----

def without_comments(path):
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(errors="replace"), flags=re.S)
    return re.sub(r"//[^\n]*", "", text)


def functions(text, end):
    """What is declared (end ';') or has a body (end '{')."""
    found = re.finditer(r"__aicore__\s+inline\s+(?:constexpr\s+)?([\w:]+(?:\s*\*)?)\s+(asc_\w+)\s*\(([^()]*)\)\s*" + end, text)
    return {(m[2], m[1], tuple(bare_type(a) for a in split_arguments(m[3]))) for m in found}


def in_namespace(text):
    return "".join(re.findall(r"^namespace \w+\s*\{(.*?)^\}", text, flags=re.M | re.S))


def read_headers(folder):
    """Signatures with a body for 2201, all names that are declared, macros, names that are declared in a namespace."""
    public = [p for p in sorted((folder / "include/c_api").rglob("*.h")) if "reg_compute" not in p.parts]
    bodies = sorted((folder / BODIES).glob("*_impl.h"))
    if not public or not bodies:
        sys.exit(f"{folder}: no include/c_api or no {BODIES}")
    declared = set().union(*(functions(without_comments(p), ";") for p in public))
    here = set().union(*(functions(without_comments(p), r"\{") for p in bodies))
    sync = without_comments(folder / "include/c_api/sync/sync.h").split("__NPU_ARCH__ == 3510")
    text = sync[0] + sync[1] if len(sync) > 2 else "".join(sync)  # includes for 3510, what both have; then what 3510 alone has
    macros = {(name, args.count(",") + 1) for name, args in re.findall(r"#define\s+(asc_\w+)\(([^)]*)\)", text)}
    inner = set().union(*(functions(in_namespace(without_comments(p)), ";") for p in public))
    return here, {s[0] for s in declared}, macros, {s[0] for s in inner} & {s[0] for s in here}


def without_sync(names):
    return {n for n in names if not (n.endswith("_sync") and n[: -len("_sync")] in names)}


def told(signature):
    return f"{signature[1]} {signature[0]}({', '.join(signature[2])})"


def check_list(folder):
    (signatures, macros, inner), absent = read_list(), read_absent()
    here, declared, macros_here, inner_here = read_headers(folder)
    wrong = [f"the list lacks {told(s)}" for s in sorted(here - signatures)]
    wrong += [f"the headers have no body for 2201 of {told(s)}" for s in sorted(signatures - here)]
    wrong += [f"the list lacks the macro {name} of {n} arguments" for name, n in sorted(macros_here - macros)]
    wrong += [f"the headers have no macro {name} of {n} arguments for 2201" for name, n in sorted(macros - macros_here)]
    wrong += [f"{name} is in a namespace: in the list or in the headers alone" for name in sorted(inner ^ inner_here)]
    other = without_sync(declared) - {s[0] for s in here}
    wrong += [f"{name} has no body for 2201, and asc_absent.h lacks it" for name in sorted(other - absent)]
    wrong += [f"{name} has a body for 2201 or is not declared, and asc_absent.h has it" for name in sorted(absent - other)]
    return finish(wrong, f"{len(signatures)} signatures of {len({s[0] for s in signatures})} calls, {len(macros)} macros, "
                         f"{len(absent)} that 2201 lacks: as in {folder}")


# ---- the model's headers ----

def check_model():
    signatures, macros, _ = read_list()
    known = {s[0] for s in signatures} | {name for name, _ in macros}
    offered = set()
    for path in API.glob("asc_*.h"):
        text = without_comments(path)
        offered |= set(re.findall(r"#define (asc_[a-z0-9_]+)\(", text))
        offered |= set(re.findall(r"^static inline \w+ (asc_\w+)\(", text, flags=re.M))
    offered -= {n for n in offered if re.match(r"asc_(needs|bits)_", n)}
    wrong = [f"the model offers {name}, which the list lacks" for name in sorted(offered - known)]
    wrong += [f"{name} is in the list and called absent" for name in sorted(known & read_absent())]
    return finish(wrong, f"the model offers {len(offered)} of the {len(known)} calls on 2201, and no other")


def finish(wrong, right):
    print("\n".join(wrong) if wrong else right)
    return 1 if wrong else 0


# ---- kernels ----

def declare(signature, body):
    name, result, types = signature
    named = [re.sub(r"(\[\d+\])?$", rf" a{i}\1", t, count=1) for i, t in enumerate(types)]
    return f"inline {result} {name}({', '.join(named)}){body}\n"


def bodies_of(signatures, inner):
    """inner: the names of those that stand in a namespace, where a kernel's call does not find them."""
    def bodies(inside):
        return "".join(declare(s, " { return {}; }" if s[1] != "void" else " {}") for s in sorted(signatures) if (s[0] in inner) == inside)
    return bodies(False) + "namespace __asc_aicore {\n" + bodies(True) + "}\n"


MACROS = """
inline void cann_flag(pipe_t, pipe_t, event_t) {}
inline void cann_barrier(pipe_t) {}
inline void cann_cross(pipe_t, uint64_t) {}
inline void cann_data_barrier(mem_dsb_t) {}
#define asc_sync_notify_impl cann_flag
#define asc_sync_wait_impl cann_flag
#define asc_sync_pipe_impl cann_barrier
#define asc_sync_data_barrier_impl cann_data_barrier
#define asc_sync_block_arrive_impl cann_cross
#define asc_sync_subblock_arrive_impl cann_cross
#define asc_sync_inter_arrive_impl cann_cross
#define wait_flag_dev(flag) cann_cross(PIPE_S, flag)
"""
# Of the list alone: unions that CANN's headers define.
UNIONS = """
union asc_fill_value_config { uint64_t config; struct { uint64_t repeat : 15, r1 : 1, blk_num : 15, r2 : 1, dst_gap : 15, r3 : 17; }; };
union asc_l13d_fmatrix_config { uint64_t config; struct { uint16_t l1_height, l1_width;
    uint8_t padding_left_size, padding_right_size, padding_top_size, padding_bottom_size; }; };
union asc_load3d_v2_config { uint64_t config; struct { uint64_t rpt_stride : 16, rpt_time : 8, rpt_mode : 1, r : 39; }; };
union asc_store_atomic_config { uint64_t config; struct { uint64_t atomic_type : 3, atomic_op : 2, r : 59; }; };
"""


def macros_of(macros):
    """The list's macros in terms of those above: a pipe, or a pipe and something else."""
    out = ""
    for name, count in sorted(macros):
        arguments = ", ".join("abc"[:count])
        if name.endswith(("arrive",)):
            out += f"#define {name}({arguments}) cann_cross({arguments})\n"
        elif name.endswith("_wait") and count == 2:
            out += f"#define {name}(a, b) wait_flag_dev(b)\n"
        else:
            out += f"#define {name}({arguments}) {name}_impl({arguments})\n"
    return out


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def prepare_list(work):
    """c_api/asc_simd.h made of the list."""
    signatures, macros, inner = read_list()
    write(work / "c_api/asc_simd.h", '#pragma once\n#include "cann_calls.h"\n' + UNIONS + MACROS + macros_of(macros) + bodies_of(signatures, inner))
    return [work]


def prepare_headers(work, folder):
    """FOLDER's public headers; of what they include, the bodies for 2201 without what is in them: instructions that this compiler lacks. A
    call that is declared and has no body is an error: -Wundefined-inline."""
    for header in (folder / BODIES).rglob("*.h"):
        write(work / header.relative_to(folder), "#pragma once\n" + ("" if header.parent == folder / BODIES else '#include "cann_calls.h"\n'))
    for header in (folder / BODIES).glob("*_impl.h"):
        text = without_comments(header)
        inner = {s[0] for s in functions(in_namespace(text), r"\{")}
        write(work / header.relative_to(folder), "#pragma once\n" + bodies_of(functions(text, r"\{"), inner))
    write(work / BODIES / "utils_impl/utils_impl.h", '#pragma once\n#include "cann_calls.h"\n#include "c_api/utils_intf.h"\n' + MACROS)
    for empty in ("impl/utils/common_types.h", "impl/utils/sys_macros.h", "utils/base/sys_constants.h"):
        write(work / empty, "")
    write(work / "cstdint", "#include <stdint.h>\n")
    return [work, folder / "include"]


def compiler():
    for name in (os.environ.get("CLANGXX", ""), "clang++", "clang++-18", "clang++-16", "clang++-14"):
        if name and shutil.which(name):
            return name
    return None


def compile_one(clang, folders, source):
    command = [clang, "-fsyntax-only", "-x", "c++", "-std=c++17", "--target=aarch64-linux-gnu", "-ffreestanding", "-nostdlibinc",
               "-D__NPU_ARCH__=2201", "-DASCENDC_C_API_INCLUDE_COMPILER_INTERNAL_HEADERS", "-ferror-limit=0",
               "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Werror=undefined-inline"]
    command += [word for f in [ROOT / "scripts", *folders, KERNELS] for word in ("-I", str(f))]
    return subprocess.run([*command, str(source)], capture_output=True, text=True)


def all_kernels():
    return sorted(KERNELS.glob("*/*.asc.c"))


def check_kernels(sources, folder):
    clang = compiler()
    if not clang:
        print("skipped: there is no clang++")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folders = prepare_headers(work, folder) if folder else prepare_list(work)
        with ThreadPoolExecutor(max_workers=2) as pool:
            ran = list(pool.map(lambda s: compile_one(clang, folders, s), sources))
    wrong = [r.stderr for r in ran if r.returncode]
    return finish(wrong, f"{len(sources)} kernels' sources compile against {folder or 'the list'}: no call outside")


def check_headers():
    named = os.environ.get("TIGON_ASC_DEVKIT")
    if not named:
        print("skipped: CANN's headers are not here; TIGON_ASC_DEVKIT may name a clone of asc-devkit")
        return SKIPPED
    folder = Path(named).resolve()
    return check_list(folder) or check_kernels(all_kernels(), folder)


def main(arguments):
    mode, *rest = arguments or [""]
    folders = [Path(r).resolve() for r in rest]
    if mode == "list" and len(rest) == 1:
        return check_list(folders[0])
    if mode == "model" and not rest:
        return check_model()
    if mode == "headers" and not rest:
        return check_headers()
    if mode == "kernels" and len(rest) <= 1:
        return check_kernels(all_kernels(), *folders or [None])
    if mode == "source" and 1 <= len(rest) <= 2:
        return check_kernels(folders[:1], *folders[1:] or [None])
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
