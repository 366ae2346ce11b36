"""Makes what Python shows of the operators' manual, from include/tigon/ops.def and ops.h.
    generate.py INCLUDE_TIGON documentation.inc ops.pyi
The first is included by the extension (docstrings that begin with the signature), the second is the stub of tigon.ops.
"""
import json
import os
import re
import sys

HEAD = '''"""Every operator of Tigon as a function on tensors: see help(tigon.ops.rms_norm_forward)."""
from typing import Any, Optional, Union

Tensor = Any  # anything with __dlpack__: torch.Tensor, numpy.ndarray, cupy.ndarray, jax.Array
Output = Union[Tensor, bool, None]  # a tensor to write to; None or True: make one; optional ones are left out by None and False
'''


def operators(definitions):
    """(name, [(macro, name, further words)]) for each entry of ops.def."""
    text = re.sub(r"/\*.*?\*/", "", definitions, flags=re.S)
    for entry in re.split(r"^TG_OP\(", text, flags=re.M)[1:]:
        name, fields = entry.split(",", 1)
        fields = re.findall(r'TG_([A-Z0-9_]+)\((\w+)((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*)\)', fields)
        yield name, [(kind, arg, rest.lstrip(", ")) for kind, arg, rest in fields]


def comments(manual):
    """The comment above each prototype."""
    found = {}
    for match in re.finditer(r"/\*((?:(?!\*/).)*)\*/\s*TG_API tg_status\s+tg_(\w+)\(", manual, flags=re.S):
        lines = [re.sub(r"^ \* ?", "", line) for line in match[1].strip("\n ").split("\n")]
        found[match[2]] = "\n".join(line.rstrip() for line in lines).rstrip(" *\n")
    return found


def parameters(fields):
    """(name, default or None, type) of inputs, and of what is given by name."""
    inputs = [(kind, name) for kind, name, _ in fields if kind in ("IN", "OPT")]
    last = max(i for i, (kind, _) in enumerate(inputs) if kind == "IN")
    positional = [(name, "None" if i > last else None, "Tensor" if kind == "IN" else "Optional[Tensor]")
                  for i, (kind, name) in enumerate(inputs)]
    named = [(name, "None", "Output") for kind, name, _ in fields if "OUT" in kind or kind == "OPT_OVER"]
    types = {"F64": "float", "I64": "int", "CHOICE": "Union[str, int]"}
    for kind, name, rest in fields:
        if kind in types:
            required = rest == "TG_REQUIRED"
            named.append((name, None if required else "None", types[kind] if required else f"Optional[{types[kind]}]"))
    return positional, named + [("impl", "None", "Optional[str]")]


def signature(fields, typed):
    def one(name, default, kind):
        annotation = f": {kind}" if typed else ""
        return name + annotation + ("" if default is None else (" = " if typed else "=") + default)
    positional, named = parameters(fields)
    return ", ".join([one(*p) for p in positional] + ["*"] + [one(*p) for p in named])


def in_python(fields, text):
    """The manual's words for Python, where zero in an option is zero itself, and None what is not given."""
    zero = {arg for kind, arg, rest in fields if kind in ("F64", "I64") and rest == "0"}
    options = {arg for kind, arg, _ in fields if kind in ("F64", "I64", "CHOICE")}
    text = text.replace("NULL", "None")

    def said(match):
        of = [n for n in re.findall(r"(\w+)(?=(?:, \w+)*:)", match.string[:match.start()]) if n in options]
        return match[0] if of and of[-1] in zero else "the default is"
    return re.sub(r"\b0 means\b", said, text).replace(", TG_ZERO 0", "").replace("TG_ZERO", "0")


def shape_words(shape):
    """A shape of ops.def for readers: "[*R, N]", where *R is any number of sizes, as in Python."""
    condition, _, lists = shape.rpartition("?")
    if condition:
        yes, no = (shape_words(part.strip()) for part in lists.split(":"))
        option, _, value = condition.partition("=")
        return f"{yes} if {option} is {value.strip()}, else {no}"
    if "|" in shape:
        return " or ".join(shape_words(part.strip()) for part in shape.split("|"))
    if re.fullmatch(r"~\[[^]]*\]", shape):
        return "one element" if shape in ("~[]", "~[1]") else f"as many elements as {shape_words(shape[2:-1])}"
    rows = re.fullmatch(r"~(\[[^]]*\]),(\w+)", shape)
    if rows:
        return f"[.., {rows[2]}], as many rows as {rows[1]}"
    return f"[{shape.replace(',', ', ')}]"


def argument_lines(fields):
    for kind, name, rest in fields:
        shape = re.search(r'"([^"]*)"', rest)
        if kind not in ("F64", "I64", "CHOICE"):
            yield f"  {name}: {shape_words(shape[1])}{', or None' if kind.startswith('OPT') and kind != 'OPT_OVER' else ''}"


def documentation(name, fields, text):
    text = in_python(fields, text) + "\nShapes:\n" + "\n".join(argument_lines(fields))
    if name.endswith("_backward"):
        text = f"The gradient of {name.removesuffix('_backward')}.\n{text}"
    defaults = [f"{arg} {rest[8:-1].strip(chr(34)) if rest.startswith('TG_FROM') else rest}"
                for kind, arg, rest in fields if kind in ("F64", "I64") and rest != "TG_REQUIRED"]
    defaults = [d.replace("HUGE_VAL", "infinity") for d in defaults]
    if defaults:
        text += "\nDefaults: " + "; ".join(defaults) + ". None is the default; in Python 0 is zero itself."
    return text


def main(include, inc, stub):
    with open(os.path.join(include, "ops.def"), encoding="utf-8") as file:
        entries = list(operators(file.read()))
    with open(os.path.join(include, "ops.h"), encoding="utf-8") as file:
        manual = comments(file.read())
    with open(inc, "w", encoding="utf-8") as c, open(stub, "w", encoding="utf-8") as pyi:
        pyi.write(HEAD)
        for name, fields in entries:
            text = documentation(name, fields, manual[name])
            # (json writes a string as C does.)
            c.write(f'{{"{name}", {json.dumps(f"{name}({signature(fields, False)}){chr(10)}--{chr(10)*2}{text}")}}},\n')
            pyi.write(f"\ndef {name}({signature(fields, True)}) -> Any:\n    {json.dumps(text.split(chr(10))[0])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
