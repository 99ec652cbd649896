"""A model of random weights with the vocabulary and the chat template of a well-known family.

What it writes is noise, nearly every token as likely as any other. So whatever has a form in its answers got it from the
service, and no constraint is met by a model that would have written the same anyway.
"""

import functools
import pathlib
import re
import struct

import gguf
import numpy

from conftest import CACHE, ROOT

WIDTH, HEADS, FEED_FORWARD, CONTEXT = 32, 2, 64, 8192
# What the published vocabulary has in the places that the library's copy of it leaves blank.
MARKERS = {151657: "<tool_call>", 151658: "</tool_call>", 151667: "<think>", 151668: "</think>"}
IM_END = 151645


def library_models():
    """The folder of vocabularies and templates in the pinned source."""
    version = re.search(r'^LLAMA_VERSION="(.+)"$', (ROOT / "scripts/common.sh").read_text(), re.M).group(1)
    return CACHE / f"src/llama-cpp-python-{version}/vendor/llama.cpp/models"


def family_template(name):
    return (library_models() / f"templates/{name}.jinja").read_text()


def read_list(data, key):
    """A list of strings or of 32-bit integers of a GGUF file. The package's own reader takes a minute for this one."""
    name = key.encode()
    at = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)
    array, kind, count = struct.unpack_from("<IIQ", data, at)
    at += 16
    assert array == gguf.GGUFValueType.ARRAY
    if kind == gguf.GGUFValueType.INT32:
        return list(struct.unpack_from(f"<{count}i", data, at))
    assert kind == gguf.GGUFValueType.STRING
    strings = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, at)
        strings.append(data[at + 8:at + 8 + length])
        at += 8 + length
    return strings


@functools.cache
def vocabulary():
    data = (library_models() / "ggml-vocab-qwen2.gguf").read_bytes()
    tokens, kinds, merges = (read_list(data, f"tokenizer.ggml.{name}") for name in ("tokens", "token_type", "merges"))
    for token, marker in MARKERS.items():
        tokens[token] = marker.encode()
    return tokens, kinds, merges


# What a model remembers the tokens before in, and the published architecture that does so: attention at any distance,
# attention of which most looks at a window, attention and recurrent layers, recurrent layers alone.
ARCHITECTURES = {"attention": "qwen2", "window": "gemma3", "hybrid": "jamba", "recurrent": "mamba"}
WINDOW, STATE, CONVOLUTION, RANK, INNER = 64, 8, 4, 4, 2 * WIDTH


class TinyModel:
    """The weights and settings of one model of noise."""

    def __init__(self, path, kind):
        self.kind = kind
        self.attends = kind != "recurrent"
        self.writer = gguf.GGUFWriter(path, ARCHITECTURES[kind])
        self.random = numpy.random.default_rng(1)

    def noise(self, name, *shape, scale=0.1):
        self.writer.add_tensor(name, self.random.normal(0, scale, shape).astype(numpy.float32))

    def same(self, name, size, value=1.0):
        self.writer.add_tensor(name, numpy.full(size, value, numpy.float32))

    def describe(self, layers):
        writer = self.writer
        writer.add_name("tiny")
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(WIDTH)
        writer.add_block_count(layers)
        writer.add_feed_forward_length(FEED_FORWARD if self.attends else 0)
        writer.add_head_count(HEADS if self.attends else 0)
        writer.add_layer_norm_rms_eps(1e-6)
        if self.kind in ("attention", "window"):
            writer.add_head_count_kv(HEADS)
            writer.add_rope_freq_base(1e6)
        if self.kind == "window":
            writer.add_sliding_window(WINDOW)
        if self.kind == "hybrid":
            writer.add_head_count_kv([0, HEADS])
        if self.kind in ("hybrid", "recurrent"):
            writer.add_ssm_conv_kernel(CONVOLUTION)
            writer.add_ssm_inner_size(INNER)
            writer.add_ssm_state_size(STATE)
            writer.add_ssm_time_step_rank(RANK)

    def attention(self, block):
        for name in ("attn_q", "attn_k", "attn_v"):
            self.noise(f"{block}.{name}.weight", WIDTH, WIDTH)
            if self.kind == "attention":
                self.noise(f"{block}.{name}.bias", WIDTH)
        self.noise(f"{block}.attn_output.weight", WIDTH, WIDTH)
        if self.kind == "window":
            for name, size in (("attn_q_norm", WIDTH // HEADS), ("attn_k_norm", WIDTH // HEADS),
                               ("post_attention_norm", WIDTH), ("post_ffw_norm", WIDTH)):
                self.same(f"{block}.{name}.weight", size)

    def recurrence(self, block):
        self.noise(f"{block}.ssm_in.weight", 2 * INNER, WIDTH, scale=0.3)
        self.noise(f"{block}.ssm_conv1d.weight", INNER, CONVOLUTION, scale=0.5)
        self.same(f"{block}.ssm_conv1d.bias", INNER, 0.1)
        self.noise(f"{block}.ssm_x.weight", RANK + 2 * STATE, INNER, scale=0.3)
        self.noise(f"{block}.ssm_dt.weight", INNER, RANK, scale=0.5)
        self.same(f"{block}.ssm_dt.bias", INNER, -2.0)
        if self.kind == "hybrid":
            for name, size in (("ssm_dt_norm", RANK), ("ssm_b_norm", STATE), ("ssm_c_norm", STATE)):
                self.same(f"{block}.{name}.weight", size)
        # Decays of several speeds: the state remembers hundreds of tokens.
        decays = -0.02 * numpy.tile(numpy.arange(1, STATE + 1, dtype=numpy.float32), (INNER, 1))
        self.writer.add_tensor(f"{block}.ssm_a", decays.astype(numpy.float32))
        self.same(f"{block}.ssm_d", INNER)
        self.noise(f"{block}.ssm_out.weight", WIDTH, INNER, scale=0.3)

    def feed_forward(self, block):
        self.same(f"{block}.ffn_norm.weight", WIDTH)
        self.noise(f"{block}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        self.noise(f"{block}.ffn_up.weight", FEED_FORWARD, WIDTH)
        self.noise(f"{block}.ffn_down.weight", WIDTH, FEED_FORWARD)


def write_tiny_model(path, template, kind="attention"):
    """Writes a model of some 15 MB to `path`; the same one every time."""
    tokens, kinds, merges = vocabulary()
    layers = {"attention": 1, "window": 6, "hybrid": 2, "recurrent": 2}[kind]
    model = TinyModel(path, kind)
    model.describe(layers)
    writer = model.writer
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(IM_END)
    writer.add_chat_template(template)

    # Scaled so that the logits differ by about one: noise, but not the same noise after every prompt. The whole of it in
    # F32 where another path of computing it must not make a difference.
    embedding = model.random.normal(0, WIDTH ** -0.5, (len(tokens), WIDTH))
    writer.add_tensor("token_embd.weight", embedding.astype(numpy.float16 if kind == "attention" else numpy.float32))
    model.same("output_norm.weight", WIDTH)
    for layer in range(layers):
        block = f"blk.{layer}"
        model.same(f"{block}.attn_norm.weight", WIDTH)
        if kind == "recurrent" or (kind == "hybrid" and layer == 0):
            model.recurrence(block)
        else:
            model.attention(block)
        if model.attends:
            model.feed_forward(block)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return pathlib.Path(path)
