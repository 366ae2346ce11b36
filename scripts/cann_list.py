"""Reads the calls that CANN documents for the kernels' architecture, sim/include/c_api/calls_2201.txt, and those that it lacks, asc_absent.h
(cann_calls.py)."""
import re
from pathlib import Path

API = Path(__file__).resolve().parent.parent / "sim/include/c_api"
LIST = API / "calls_2201.txt"


# A signature: (name, result, types of the arguments).

def read_list(path=LIST):
    """The list: its signatures, its macros (name, how many arguments), the names of calls in a namespace."""
    forms, signatures, macros, inner = {}, set(), set(), set()
    for line in path.read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "form":
            head, arguments = line.split("(", 1)
            forms[words[1]] = (words[2], split_arguments(arguments.rstrip(")")))
            assert len(head.split()) == 3, line
        elif words[0] == "macro":
            name, arguments = line[len("macro "):].split("(", 1)
            macros.add((name, arguments.count(",") + 1))
        else:
            assert words[0] in ("call", "inner"), line
            signatures |= expand_call(line, forms)
            inner |= {words[1]} if words[0] == "inner" else set()
    return signatures, macros, inner


def read_absent():
    """The names that are declared and that 2201 does not implement."""
    return set(re.findall(r"^ASC_ABSENT\((\w+)\);", (API / "asc_absent.h").read_text(), flags=re.M))


def split_arguments(text):
    return [argument.strip() for argument in text.split(",")] if text.strip() else []


def expand_call(line, forms):
    """call NAME FORMS : TYPES, or inner"""
    head, _, types = line.partition(" : ")
    _, name, *used = head.split()
    out = set()
    for form in used:
        form, _, sync = form.partition("+")
        result, arguments = forms[form]
        for kind in types.split() or [""]:
            expanded = tuple(expand_argument(a, kind) for a in arguments)
            out.add((name, result, expanded))
            if sync:
                out.add((name + "_sync", result, expanded))
    return out


def expand_argument(argument, kind):
    """The type of `ubuf S *src` with the types `float:half` is `__ubuf__ half*`."""
    pointers, _, value = kind.partition("=")
    pointers = pointers.split(":")
    argument = re.sub(r" \d+\.\.\d+$", "", argument)
    space = re.fullmatch(r"(gm|ubuf|cbuf|ca|cb|cc|fbuf) ([DSR]) (\*+)\w+(\[\d+\])?", argument)
    if space:
        at = "DSR".index(space[2])
        return f"__{space[1]}__ {pointers[at] if len(pointers) > at else pointers[0]}{space[3]}{space[4] or ''}"
    if argument.startswith("V"):
        argument = (value or pointers[0]) + argument[1:]
    return bare_type(argument)


def bare_type(argument):
    """`uint8_t repeat` is `uint8_t`, `__ubuf__ half* src[4]` is `__ubuf__ half*[4]`."""
    argument = re.sub(r"\s+", " ", argument.strip())
    argument = re.sub(r"\s*([*&]+)\s*", r"\1 ", argument).strip()
    argument = re.sub(r"(?<=[ *&])(?!const\b)\w+(\[\w+\])?$", r"\1", argument).replace(" [", "[").strip()
    argument = argument.replace("const uint8_t", "uint8_t")
    return argument.replace("[ASC_C_API_MRGSORT_ELEMENT_LEN]", "[4]").replace("[ASC_VDEQ_SIZE]", "[16]")
