"""How far two checkpoints of the trainer lie apart, over how far the second one has come.
  distance.py A B START: prints |a - b| / |b - start| over all parameters of model.safetensors
"""
import array
import json
import math
import struct
import sys


def parameters(folder):
    """Name: numbers, of a safetensors file: a length, a JSON header of places, the data."""
    with open(folder + "/model.safetensors", "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    result = {}
    for name, place in header.items():
        begin, end = place["data_offsets"]
        piece = data[begin:end]
        if place["dtype"] == "BF16":  # the upper half of an f32
            wide = bytearray(2 * len(piece))
            wide[2::4], wide[3::4] = piece[0::2], piece[1::2]
            piece = bytes(wide)
        elif place["dtype"] != "F32":
            sys.exit(f"{folder}: {name} is {place['dtype']}, expected F32 or BF16")
        result[name] = array.array("f", piece)
    return result


a, b, start = (parameters(folder) for folder in sys.argv[1:4])
if not a or not a.keys() == b.keys() == start.keys():
    sys.exit("the checkpoints hold different parameters")
gap = way = 0.0
for name in a:
    if not len(a[name]) == len(b[name]) == len(start[name]):
        sys.exit(f"{name} has different sizes")
    gap += sum((x - y) ** 2 for x, y in zip(a[name], b[name]))
    way += sum((x - y) ** 2 for x, y in zip(b[name], start[name]))
if not (way > 0 and math.isfinite(gap)):
    sys.exit("the parameters have not moved, or are not finite")
print(f"{math.sqrt(gap / way):.3e}")
