"""What a report says of files, calls and buffers, held against the sources and against itself.

    report_record.py SOURCE_DIR REPORT.json...
"""
import json
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])


def text_of(files, base):
    """The lines of the one file of the report that a place names."""
    found = [f for f in files if f.rsplit("/", 1)[-1] == base]
    assert len(found) == 1, f"{base} is {found} of {files}"
    return (source / found[0]).read_text().splitlines()


def places_of(where):
    """(file, line) of "swiglu.asc.c:20, :24, asc_common.h:110"."""
    base = None
    for place in where.split(", "):
        name, line = place.rsplit(":", 1)
        base = name or base
        yield base, int(line)


def macros():
    """Names of the kernels' macros whose text, or that of macros in it, calls the API: name -> what it may call."""
    bodies = {}
    for file in sorted((source / "backends/ascend/kernels").rglob("*.h")) + sorted((source / "backends/ascend/kernels").rglob("*.asc.c")):
        text = file.read_text().replace("\\\n", " ")
        for name, body in re.findall(r"^#define (\w+)(?:\([^)]*\))?(.*)$", text, re.M):
            bodies.setdefault(name, set()).update(re.findall(r"\w+", body))
    return bodies


def may_call(line, call, bodies, depth=0):
    """Whether words of a line are the call, or macros that may become it (a macro's argument may be pasted: asc_half2 ## x)."""
    words = line if depth else set(re.findall(r"\w+", line))
    if any(w == call or (w.startswith("asc_") and call.startswith(w)) for w in words):
        return True
    return depth < 6 and any(may_call(bodies[w], call, bodies, depth + 1) for w in words if w in bodies)


def check_files(report):
    files = {x["file"]: x for x in report["files"]["list"]}
    for name, x in files.items():
        text = (source / name).read_text()
        assert x["lines"] == text.count("\n") and 0 <= x["lines with calls"] <= x["lines"], x
        assert x["what it holds"] and x["what it holds"] in " ".join(re.sub(r"\n \* ", " ", text).split("\n")), x
    assert any(name.count("/") == 2 for name in files), "no host's file"
    assert any(name.endswith(".args.h") for name in files) and any(name.endswith(".asc.c") for name in files), list(files)
    return files


def check_calls(report, files, bodies):
    lines = {}
    for x in report["api"]["calls"]:
        places = list(places_of(x["where"]))
        assert len(set(places)) == len(places) == x["places"], x
        assert x["times"] >= 0 and x["busy us"] >= 0 and x["wait us"] >= 0, x
        assert x["times"] or not x["busy us"] + x["wait us"], x
        for base, line in places:
            text = text_of(files, base)
            # a call of several lines is known by the last of them or by the first
            assert any(may_call(t, x["call"], bodies) for t in text[max(0, line - 8):line]), f"{base}:{line} does not call {x['call']}: {text[line - 1]}"
            lines.setdefault(base, set()).add(line)
    counted = {name.rsplit("/", 1)[-1]: x["lines with calls"] for name, x in files.items() if x["lines with calls"]}
    assert counted == {base: len(n) for base, n in lines.items()}, (counted, lines)
    pipes = {x["pipe"] for x in report["api"]["calls"]}
    assert {"scalar", "vector", "mte2", "mte3"} <= pipes, pipes
    return pipes


def check_buffers(report):
    buffers = report["tiling"].get("buffers", [])
    for x in buffers:
        assert x["bytes used"] <= x["copies"] * ((x["of a copy"] + 63) // 32 * 32), x
    return buffers


bodies = macros()
for name in sys.argv[2:]:
    report = json.load(open(name))
    pipes = check_calls(report, check_files(report), bodies)
    buffers = check_buffers(report)
    if "attention" in name:
        assert {"cube", "mte1", "fixpipe"} <= pipes, pipes
    else:
        assert buffers and all(x["bytes used"] > 0 for x in buffers if x["per"] == "element"), buffers
