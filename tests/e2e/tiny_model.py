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

WIDTH, HEADS, FEED_FORWARD, CONTEXT, CONVOLUTION = 32, 2, 64, 8192, 3
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


class TinyWriter:
    """A file of one family with random weights, the same ones every time."""

    def __init__(self, path, family, layers, template):
        tokens, kinds, merges = vocabulary()
        self.path, self.file = path, gguf.GGUFWriter(path, family)
        self.random, self.tokens = numpy.random.default_rng(1), len(tokens)
        writer = self.file
        writer.add_name("tiny")
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(WIDTH)
        writer.add_block_count(layers)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list(tokens)
        writer.add_token_types(kinds)
        writer.add_token_merges(merges)
        writer.add_eos_token_id(IM_END)
        writer.add_chat_template(template)

    def random_tensor(self, name, *shape, scale=0.1):
        self.file.add_tensor(name, self.random.normal(0, scale, shape).astype(numpy.float32))

    def embeddings(self, kind=numpy.float16):
        # Scaled so that the logits differ by about one: noise, but not the same noise after every prompt.
        weights = self.random.normal(0, WIDTH ** -0.5, (self.tokens, WIDTH))
        self.file.add_tensor("token_embd.weight", weights.astype(kind))

    def ones(self, name, width=WIDTH):
        self.file.add_tensor(name, numpy.ones(width, numpy.float32))

    def attention(self, layer, bias):
        for name in ("attn_q", "attn_k", "attn_v"):
            self.random_tensor(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
            if bias:
                self.random_tensor(f"blk.{layer}.{name}.bias", WIDTH)
        self.random_tensor(f"blk.{layer}.attn_output.weight", WIDTH, WIDTH)

    def feed_forward(self, layer):
        self.random_tensor(f"blk.{layer}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        self.random_tensor(f"blk.{layer}.ffn_up.weight", FEED_FORWARD, WIDTH)
        self.random_tensor(f"blk.{layer}.ffn_down.weight", WIDTH, FEED_FORWARD)

    def finish(self):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()
        return pathlib.Path(self.path)


def write_tiny_model(path, template):
    """Writes a model of some 15 MB to `path`; the same one every time."""
    tiny = TinyWriter(path, "qwen2", 1, template)
    tiny.file.add_feed_forward_length(FEED_FORWARD)
    tiny.file.add_head_count(HEADS)
    tiny.file.add_head_count_kv(HEADS)
    tiny.file.add_rope_freq_base(1e6)
    tiny.embeddings()
    tiny.ones("output_norm.weight")
    tiny.ones("blk.0.attn_norm.weight")
    tiny.ones("blk.0.ffn_norm.weight")
    tiny.attention(0, bias=True)
    tiny.feed_forward(0)
    return tiny.finish()


def write_tiny_hybrid(path, template):
    """Two layers, the first recurrent (a short convolution), the second attention; all weights F32."""
    tiny = TinyWriter(path, "lfm2", 2, template)
    tiny.file.add_feed_forward_length(FEED_FORWARD)
    tiny.file.add_head_count(HEADS)
    tiny.file.add_head_count_kv([0, HEADS])
    tiny.file.add_rope_freq_base(1e6)
    tiny.file.add_shortconv_l_cache(CONVOLUTION)
    tiny.file.add_vocab_size(tiny.tokens)
    tiny.embeddings(numpy.float32)
    tiny.ones("token_embd_norm.weight")
    for layer in range(2):
        tiny.ones(f"blk.{layer}.attn_norm.weight")
        tiny.ones(f"blk.{layer}.ffn_norm.weight")
        tiny.feed_forward(layer)
    tiny.random_tensor("blk.0.shortconv.conv.weight", WIDTH, CONVOLUTION, scale=0.5)
    tiny.random_tensor("blk.0.shortconv.in_proj.weight", 3 * WIDTH, WIDTH, scale=0.5)
    tiny.random_tensor("blk.0.shortconv.out_proj.weight", WIDTH, WIDTH, scale=0.5)
    tiny.attention(1, bias=False)
    tiny.ones("blk.1.attn_q_norm.weight", WIDTH // HEADS)
    tiny.ones("blk.1.attn_k_norm.weight", WIDTH // HEADS)
    return tiny.finish()


def write_tiny_recurrent(path, template):
    """One layer of a state space, no attention at all; all weights F32."""
    inner, rank, state = 2 * WIDTH, 2, 16
    tiny = TinyWriter(path, "mamba", 1, template)
    tiny.file.add_feed_forward_length(0)
    tiny.file.add_head_count(0)
    tiny.file.add_ssm_conv_kernel(CONVOLUTION + 1)
    tiny.file.add_ssm_inner_size(inner)
    tiny.file.add_ssm_state_size(state)
    tiny.file.add_ssm_time_step_rank(rank)
    tiny.embeddings(numpy.float32)
    tiny.ones("output_norm.weight")
    tiny.ones("blk.0.attn_norm.weight")
    tiny.random_tensor("blk.0.ssm_in.weight", 2 * inner, WIDTH, scale=0.5)
    tiny.random_tensor("blk.0.ssm_conv1d.weight", inner, CONVOLUTION + 1, scale=0.5)
    tiny.random_tensor("blk.0.ssm_conv1d.bias", inner)
    tiny.random_tensor("blk.0.ssm_x.weight", rank + 2 * state, inner, scale=0.5)
    tiny.random_tensor("blk.0.ssm_dt.weight", inner, rank, scale=0.5)
    tiny.random_tensor("blk.0.ssm_dt.bias", inner)
    tiny.file.add_tensor("blk.0.ssm_a", -numpy.tile(numpy.arange(1, state + 1, dtype=numpy.float32), (inner, 1)))
    tiny.ones("blk.0.ssm_d", inner)
    tiny.random_tensor("blk.0.ssm_out.weight", WIDTH, inner, scale=0.5)
    return tiny.finish()
