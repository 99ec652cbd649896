// llama/tiny_model.h
//
// For tests: models of random weights in F32, one of each kind of memory, small enough that a token costs
// some microseconds. What they write is noise that depends on every token before it.
#pragma once
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace gezel::llama::testing {

// full: attention at any distance. window: five of six layers see a window only. hybrid: attention and
// recurrent layers. recurrent: no attention.
enum class TinyKind { full, window, hybrid, recurrent };

inline constexpr int kTinyVocabulary = 320;
inline constexpr int kTinyWindow = 32;  // tokens

class TinyModelWriter {
 public:
  explicit TinyModelWriter(TinyKind kind) : kind_(kind), file_(gguf_init_empty()) {
    tensors_ = ggml_init({.mem_size = std::size_t{16} << 20, .mem_buffer = nullptr, .no_alloc = false});
  }
  ~TinyModelWriter() {
    ggml_free(tensors_);
    gguf_free(file_);
  }
  TinyModelWriter(const TinyModelWriter&) = delete;
  TinyModelWriter& operator=(const TinyModelWriter&) = delete;

  void write(const std::filesystem::path& path) {
    metadata();
    vocabulary();
    tensor("token_embd.weight", {kWidth, kTinyVocabulary}, 1);
    constant("output_norm.weight", kWidth, 1);
    const int layers = kind_ == TinyKind::window ? 6 : 2;
    for (int layer = 0; layer < layers; ++layer) {
      prefix_ = "blk." + std::to_string(layer) + ".";
      constant("attn_norm.weight", kWidth, 1);
      const bool recurrent = kind_ == TinyKind::recurrent || (kind_ == TinyKind::hybrid && layer == 0);
      recurrent ? recurrent_layer() : attention_layer();
      if (kind_ != TinyKind::recurrent) feed_forward();
    }
    ASSERT_TRUE(gguf_write_to_file(file_, path.c_str(), false));
  }

 private:
  static constexpr int kWidth = 32, kHeads = 2, kFeedForward = 64, kContext = 4096;
  static constexpr int kState = 8, kConvolution = 4, kRank = 4, kInner = 2 * kWidth;

  const char* architecture() const {
    switch (kind_) {
      case TinyKind::full:
        return "llama";
      case TinyKind::window:
        return "gemma3";
      case TinyKind::hybrid:
        return "jamba";
      case TinyKind::recurrent:
        return "mamba";
    }
    return "";
  }
  void number(const std::string& key, std::uint32_t value) {
    gguf_set_val_u32(file_, (std::string(architecture()) + "." + key).c_str(), value);
  }
  void metadata() {
    gguf_set_val_str(file_, "general.architecture", architecture());
    const bool attends = kind_ != TinyKind::recurrent;
    number("context_length", kContext);
    number("embedding_length", kWidth);
    number("block_count", kind_ == TinyKind::window ? 6 : 2);
    number("feed_forward_length", attends ? kFeedForward : 0);
    number("attention.head_count", attends ? kHeads : 0);
    gguf_set_val_f32(file_, (std::string(architecture()) + ".attention.layer_norm_rms_epsilon").c_str(),
                     1e-5F);
    if (kind_ == TinyKind::window) number("attention.sliding_window", kTinyWindow);
    if (kind_ == TinyKind::full) number("rope.dimension_count", kWidth / kHeads);
    if (kind_ == TinyKind::hybrid) {
      const std::int32_t heads[] = {0, kHeads};
      gguf_set_arr_data(file_, "jamba.attention.head_count_kv", GGUF_TYPE_INT32, heads, 2);
    }
    if (kind_ == TinyKind::hybrid || kind_ == TinyKind::recurrent) {
      number("ssm.conv_kernel", kConvolution);
      number("ssm.inner_size", kInner);
      number("ssm.state_size", kState);
      number("ssm.time_step_rank", kRank);
    }
  }
  // Three control tokens, the 256 bytes, and words.
  void vocabulary() {
    std::vector<std::string> names = {"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types = {2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      names.emplace_back(name);
      types.push_back(6);
    }
    while (names.size() < kTinyVocabulary) {
      names.push_back("word" + std::to_string(names.size()));
      types.push_back(1);
    }
    std::vector<const char*> pointers;
    for (const auto& name : names) pointers.push_back(name.c_str());
    const std::vector<float> scores(names.size(), 0);
    gguf_set_val_str(file_, "tokenizer.ggml.model", "llama");
    gguf_set_arr_str(file_, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
    gguf_set_arr_data(file_, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
    gguf_set_arr_data(file_, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
  }

  ggml_tensor* add(const std::string& name, std::initializer_list<std::int64_t> shape) {
    ggml_tensor* const out =
        ggml_new_tensor(tensors_, GGML_TYPE_F32, static_cast<int>(shape.size()), shape.begin());
    ggml_set_name(out, (prefix_ + name).c_str());
    return out;
  }
  // `gain` 1: what comes out is about as large as what goes in.
  void tensor(const std::string& name, std::initializer_list<std::int64_t> shape, float gain) {
    ggml_tensor* const out = add(name, shape);
    std::normal_distribution<float> normal(0, gain / std::sqrt(static_cast<float>(*shape.begin())));
    float* const values = ggml_get_data_f32(out);
    for (std::int64_t i = 0; i < ggml_nelements(out); ++i) values[i] = normal(random_);
    gguf_add_tensor(file_, out);
  }
  void constant(const std::string& name, std::int64_t size, float value) {
    ggml_tensor* const out = add(name, {size});
    for (std::int64_t i = 0; i < size; ++i) ggml_get_data_f32(out)[i] = value;
    gguf_add_tensor(file_, out);
  }

  void attention_layer() {
    // Sharp, so that a single token far away makes a difference.
    tensor("attn_q.weight", {kWidth, kWidth}, 3);
    tensor("attn_k.weight", {kWidth, kWidth}, 3);
    tensor("attn_v.weight", {kWidth, kWidth}, 2);
    tensor("attn_output.weight", {kWidth, kWidth}, 2);
    if (kind_ != TinyKind::window) return;
    constant("attn_q_norm.weight", kWidth / kHeads, 3);
    constant("attn_k_norm.weight", kWidth / kHeads, 3);
    constant("post_attention_norm.weight", kWidth, 1);
    constant("post_ffw_norm.weight", kWidth, 1);
  }
  void recurrent_layer() {
    tensor("ssm_in.weight", {kWidth, 2 * kInner}, 2);
    tensor("ssm_conv1d.weight", {kConvolution, kInner}, 1);
    constant("ssm_conv1d.bias", kInner, 0.1F);
    tensor("ssm_x.weight", {kInner, kRank + 2 * kState}, 2);
    tensor("ssm_dt.weight", {kRank, kInner}, 1);
    constant("ssm_dt.bias", kInner, -2);
    if (kind_ == TinyKind::hybrid) {
      constant("ssm_dt_norm.weight", kRank, 1);
      constant("ssm_b_norm.weight", kState, 1);
      constant("ssm_c_norm.weight", kState, 1);
    }
    // Decays of several speeds: the state remembers hundreds of tokens.
    ggml_tensor* const decay = add("ssm_a", {kState, kInner});
    for (std::int64_t i = 0; i < ggml_nelements(decay); ++i)
      ggml_get_data_f32(decay)[i] = -0.02F * static_cast<float>(1 + i % kState);
    gguf_add_tensor(file_, decay);
    constant("ssm_d", kInner, 1);
    tensor("ssm_out.weight", {kInner, kWidth}, 2);
  }
  void feed_forward() {
    constant("ffn_norm.weight", kWidth, 1);
    tensor("ffn_gate.weight", {kWidth, kFeedForward}, 1);
    tensor("ffn_up.weight", {kWidth, kFeedForward}, 1);
    tensor("ffn_down.weight", {kFeedForward, kWidth}, 1);
  }

  const TinyKind kind_;
  gguf_context* file_;
  ggml_context* tensors_ = nullptr;
  std::string prefix_;
  std::mt19937 random_{11};
};

inline void write_tiny_model(const std::filesystem::path& path, TinyKind kind) {
  TinyModelWriter(kind).write(path);
}

}  // namespace gezel::llama::testing
