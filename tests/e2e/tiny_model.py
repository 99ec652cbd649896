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


def write_tiny_model(path, template):
    """Writes a model of some 15 MB to `path`; the same one every time."""
    tokens, kinds, merges = vocabulary()
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(IM_END)
    writer.add_chat_template(template)

    random = numpy.random.default_rng(1)

    def tensor(name, *shape, scale=0.1):
        writer.add_tensor(name, random.normal(0, scale, shape).astype(numpy.float32))

    def ones(name):
        writer.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    # Scaled so that the logits differ by about one: noise, but not the same noise after every prompt.
    writer.add_tensor("token_embd.weight", random.normal(0, WIDTH ** -0.5, (len(tokens), WIDTH)).astype(numpy.float16))
    ones("output_norm.weight")
    ones("blk.0.attn_norm.weight")
    ones("blk.0.ffn_norm.weight")
    for name in ("attn_q", "attn_k", "attn_v"):
        tensor(f"blk.0.{name}.weight", WIDTH, WIDTH)
        tensor(f"blk.0.{name}.bias", WIDTH)
    tensor("blk.0.attn_output.weight", WIDTH, WIDTH)
    tensor("blk.0.ffn_gate.weight", FEED_FORWARD, WIDTH)
    tensor("blk.0.ffn_up.weight", FEED_FORWARD, WIDTH)
    tensor("blk.0.ffn_down.weight", WIDTH, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return pathlib.Path(path)
