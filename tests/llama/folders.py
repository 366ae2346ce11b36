"""Folders of a Llama as others may have them: a part of them right, the others wrong in one thing each.

    folders.py FOLDER TARGET

FOLDER holds config.json and model.safetensors in f32, or several such files, whose output has a matrix of its own. Makes a folder for each case in TARGET, and prints
its name and, behind a bar, `same` (it is the same model), `taken` (another one, but right), or words that must refuse it.
"""
import glob
import json
import os
import struct
import sys

source, target = sys.argv[1:]
Q, K = "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"
EMBED, HEAD, NORM = "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}


def read_tensors():
    tensors = {}
    for path in sorted(glob.glob(source + "/model*.safetensors")):
        raw = open(path, "rb").read()
        data = 8 + struct.unpack("<Q", raw[:8])[0]
        for name, entry in json.loads(raw[8:data]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                tensors[name] = [entry["dtype"], entry["shape"], raw[data + begin:data + end]]
    return tensors


class Folder:
    """A folder in memory: its configuration, its tensors, the header and the data of its file, which a case changes."""

    def __init__(self):
        self.config = json.load(open(source + "/config.json"))
        self.tensors = read_tensors()
        self.index = None
        self.others = {}

    def lay_out(self, names=None):
        """The header that tells of the tensors, and their bytes."""
        self.header, self.data = {}, b""
        for name in names or self.tensors:
            kind, shape, raw = self.tensors[name]
            self.header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(self.data), len(self.data) + len(raw)]}
            self.data += raw
        self.text = None
        return self

    def file(self):
        text = (json.dumps(self.header) if self.text is None else self.text).encode()
        return struct.pack("<Q", len(text)) + text + self.data

    def save(self, name):
        os.makedirs(f"{target}/{name}")
        files = {"config.json": json.dumps(self.config) if isinstance(self.config, dict) else self.config, **self.others}
        if self.index is not None:
            files["model.safetensors.index.json"] = json.dumps(self.index)
        if "model.safetensors" not in files:
            files["model.safetensors"] = self.file()
        for file, content in files.items():
            if content is not None:
                with open(f"{target}/{name}/{file}", "wb") as out:
                    out.write(content if isinstance(content, bytes) else content.encode())


count = 0


def case(words, change, laid=True):
    """One folder: `change` gets it, laid out already or not yet (then it may change tensors)."""
    global count
    count += 1
    folder = Folder()
    if laid:
        folder.lay_out()
        change(folder)
    else:
        change(folder)
        if not hasattr(folder, "header"):
            folder.lay_out()
    name = f"case{count:03d}"
    folder.save(name)
    print(f"{name}|{words}")


def config(words, **values):
    """config.json with other values; ... takes one away."""
    def change(folder):
        for key, value in values.items():
            folder.config[key] = value
            if value is ...:
                del folder.config[key]
    case(words, change)


def without(key):
    return {k: v for k, v in LLAMA3.items() if k != key}


# Sizes: named when they are missing, whole numbers, neither texts nor truths.
for key in ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
    config(f"config.json: missing: {key}", **{key: ...})
    config(f"config.json: missing: {key}", **{key: None})
config("expected [64,64]: num_key_value_heads heads", num_key_value_heads=...)
config("same", head_dim=...)
for value in (32.5, "64", True, [], 0, -64, 1e30):
    config("config.json: hidden_size: expected a whole number in [2, 1048576]", hidden_size=value)
config("num_key_value_heads: expected a whole number", num_key_value_heads=1.5)
config("num_key_value_heads: expected a divisor of num_attention_heads", num_key_value_heads=3)
config("rms_norm_eps: expected a number in [0, 1], found \"1e-5\"", rms_norm_eps="1e-5")
config("tie_word_embeddings: expected true or false", tie_word_embeddings="yes")
config("attention_bias: expected false", attention_bias=True)
config("mlp_bias: expected false, found 1", mlp_bias=1)
config("attention_dropout: expected 0", attention_dropout=0.1)
config("hidden_act: expected silu", hidden_act="gelu")
config("quantization_config: expected none", quantization_config={"bits": 4})
case("config.json is no JSON object", lambda f: setattr(f, "config", "[]"))
case("config.json is no JSON object", lambda f: setattr(f, "config", json.dumps(f.config) + "x"))
case("config.json names hidden_size twice", lambda f: setattr(f, "config", '{"hidden_size": 64, ' + json.dumps(f.config)[1:]))

# Frequencies: as transformers takes them, and nothing that contradicts itself.
config("same", rope_theta=..., rope_scaling=..., rope_parameters={"rope_theta": 5e5})
config("same", rope_parameters={})
config("same", rope_parameters={"rope_theta": 5e5, "rope_type": "default"}, rope_scaling={"type": "default"})
config("taken", rope_scaling=LLAMA3)
config("taken", rope_scaling=LLAMA3, rope_parameters={**LLAMA3, "rope_theta": 5e5})
config("taken", rope_scaling=without("original_max_position_embeddings"))
config("rope_theta: expected the same everywhere", rope_parameters={"rope_theta": 1e4})
config("rope_scaling: expected what rope_parameters say", rope_scaling=LLAMA3, rope_parameters={**LLAMA3, "factor": 4.0})
config("rope_scaling: expected what rope_parameters say", rope_scaling=LLAMA3, rope_parameters={"rope_type": "default"})
config("type: expected default or llama3", rope_scaling={"type": "linear", "factor": 2.0}, rope_parameters={"rope_type": "default"})
config("type: expected what rope_type says", rope_scaling={**LLAMA3, "type": "linear"})
config("rope_parameters: factor: expected nothing of that name", rope_parameters={"factor": 4.0})
config("rope_parameters: expected an object", rope_parameters="default")
config("partial_rotary_factor: expected 1", partial_rotary_factor=0.5)
config("low_freq_factor: expected above 0, and below high_freq_factor", rope_scaling={**LLAMA3, "low_freq_factor": 5.0})
for key in ("factor", "low_freq_factor", "high_freq_factor"):
    config(f"{key}: expected a number for rope_type llama3", rope_scaling=without(key))
    config(f"{key}: expected a number in", rope_scaling={**LLAMA3, key: "1"})

# Tensors that the configuration does not speak of; those that follow from others.
config("holds model.layers.1.", num_hidden_layers=1)
config("holds no tensor model.layers.2.", num_hidden_layers=3)


def add(name, kind, shape, raw):
    return lambda f: f.tensors.update({name: [kind, shape, raw]})


case("holds model.layers.0.self_attn.q_proj.bias", add("model.layers.0.self_attn.q_proj.bias", "F32", [64], bytes(256)), laid=False)
case("same", add("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", [8], bytes(32)), laid=False)
case("holds no tensor lm_head.weight", lambda f: f.tensors.pop(HEAD), laid=False)


def tie(original, copy):
    """A tied model, whose table stands under one name or two."""
    def change(f):
        f.config["tie_word_embeddings"] = True
        table = f.tensors.pop(EMBED)
        f.tensors.pop(HEAD)
        f.tensors[original] = table
        if copy:
            f.tensors[copy] = table
    return change


case("taken", tie(EMBED, None), laid=False)
case("taken", tie(HEAD, None), laid=False)
case("taken", tie(EMBED, HEAD), laid=False)
config("lm_head.weight is not model.embed_tokens.weight", tie_word_embeddings=True)

# Values that are no numbers.
for bits, word in ((0x7fc00000, "nan"), (0xff800000, "-inf")):
    def poison(f):
        raw = f.tensors[Q][2]
        f.tensors[Q][2] = raw[:40] + struct.pack("<I", bits) + raw[44:]
    case(f"{Q} holds {word} as its element 10, expected finite numbers", poison, laid=False)


# The frame of a file: types, shapes, places, names.
def entry(words, **values):
    case(words, lambda f: f.header[Q].update(values))


entry(f"{Q} is F64, expected F32, BF16 or F16", dtype="F64")
entry(f"{Q} is of no type", dtype=3)
entry("it has 16384 bytes, expected 8192", dtype="BF16")
for shape in ([32, 128], [4096], [-64, -64], "64"):
    entry("expected [64,64]: num_attention_heads heads of head_dim, hidden_size", shape=shape)
for offsets in ([-4, 8], [8, 4], [0.5, 4], ["0", "4"], [0, 4, 8], [0, 10**12], [10**30, 10**31], None):
    entry(f"{Q}: its place in the file is wrong", data_offsets=offsets)
entry("tensors lie one behind the other", data_offsets=[0, 16384])
case(f"its header names {Q} twice", lambda f: setattr(f, "text", json.dumps(f.header)[:-1] + f', "{Q}": {json.dumps(f.header[Q])}}}'))
case("its header is no JSON object", lambda f: setattr(f, "text", json.dumps(f.header) + "x"))
case("same", lambda f: setattr(f, "text", json.dumps(f.header) + "   "))
case("its tensors take", lambda f: setattr(f, "data", f.data + b"x"))
case("its place in the file is wrong", lambda f: setattr(f, "data", f.data[:-1]))
case("is no safetensors file: 3 bytes", lambda f: f.others.update({"model.safetensors": b"few"}))
case("is no safetensors file: its header would have", lambda f: f.others.update({"model.safetensors": b"\xff" * 64}))


# An index of another time: the single file goes before it, and where a tensor is its file says.
def two_files(f, repeated=()):
    names = list(f.tensors)
    f.others["a.safetensors"] = f.lay_out(names[:5]).file()
    f.others["b.safetensors"] = f.lay_out([*names[5:], *repeated]).file()
    f.others["model.safetensors"] = None


case("same", lambda f: setattr(f, "index", {"weight_map": {EMBED: "model-00001-of-00002.safetensors"}}))
case("same", lambda f: (two_files(f), setattr(f, "index", {"weight_map": {NORM: "a.safetensors", "old": "b.safetensors"}})), laid=False)
case("holds no tensor", lambda f: (two_files(f), setattr(f, "index", {"weight_map": {NORM: "a.safetensors"}})), laid=False)
case("has no place", lambda f: (two_files(f, list(f.tensors)[:1]), setattr(f, "index", {"weight_map": {NORM: "a.safetensors", Q: "b.safetensors"}})), laid=False)
case("weight_map: expected files by names", lambda f: (two_files(f), setattr(f, "index", {"weight_map": []})), laid=False)
case("expected a file, found 3", lambda f: (two_files(f), setattr(f, "index", {"weight_map": {NORM: 3}})), laid=False)
