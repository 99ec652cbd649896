// template/default_templates.h
//
// Templates for files that carry none, chosen by the control tokens of the vocabulary.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::chat {

struct DefaultTemplate {
  std::string_view name;           // "default:gemma"
  std::string_view control_token;  // the vocabulary has it; "" = always fits
  std::string_view source;
  std::vector<std::string> stops;  // stop strings that the format needs
};

// The first whose control token the vocabulary has; the last one, plain text, fits every vocabulary.
const DefaultTemplate& choose_default_template(
    const std::function<bool(std::string_view)>& has_special_token);

const std::vector<DefaultTemplate>& default_templates();

}  // namespace gezel::chat
