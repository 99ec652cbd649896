#include "cli/completion.h"

#include <algorithm>

#include "cli/model_names.h"

namespace gezel::cli {
namespace {

constexpr std::string_view kBash =
    R"sh(# bash completion of gezel. Use it now:      eval "$(gezel completion bash)"
# or always: gezel completion bash >~/.local/share/bash-completion/completions/gezel
_gezel() {
  local line="${COMP_LINE:0:COMP_POINT}" program="${1/#\~/$HOME}" current prefix="" candidate about
  local IFS=$' \t\n'
  local -a words
  read -ra words <<<"$line"
  case "$line" in *[[:space:]]) words+=("") ;; esac
  current="${words[${#words[@]} - 1]}"
  # bash treats what follows a ':' as a word of its own and replaces only that.
  case "$COMP_WORDBREAKS" in *:*) prefix="${current%"${current##*:}"}" ;; esac
  COMPREPLY=()
  while IFS=$'\t' read -r candidate about; do
    IFS=$'\n'
    case "$candidate" in
      :file) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")) ;;
      :folder) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$current")) ;;
      *) COMPREPLY+=("${candidate#"$prefix"}") ;;
    esac
  done < <("$program" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _gezel gezel
)sh";

constexpr std::string_view kZsh = R"sh(#compdef gezel
# zsh completion of gezel. Use it now:      source <(gezel completion zsh)
# or always: gezel completion zsh >"${fpath[1]}/_gezel"
_gezel() {
  local candidate about
  local -a candidates
  while IFS=$'\t' read -r candidate about; do
    case "$candidate" in
      :file) _files && return ;;
      :folder) _files -/ && return ;;
      *) candidates+=("${candidate//:/\\:}${about:+:$about}") ;;
    esac
  done < <("${(e)~words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  _describe 'gezel' candidates
}
if [ "$funcstack[1]" = "_gezel" ]; then
  _gezel "$@"
else
  compdef _gezel gezel
fi
)sh";

constexpr std::string_view kFish =
    R"sh(# fish completion of gezel. Use it now:      gezel completion fish | source
# or always: gezel completion fish >~/.config/fish/completions/gezel.fish
function __gezel_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -q current[1]; or set current ''
    for line in ($before[1] __complete $before[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':file'
                __fish_complete_path "$current"
            case ':folder'
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end
complete -c gezel -f -a '(__gezel_complete)'
)sh";

const Flag* find_flag(const Command& command, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  for (const auto& flags : {command.flags, common_flags()}) {
    for (const Flag& flag : flags) {
      const std::size_t comma = flag.name.find(',');
      if (flag.long_name() == name || (comma != std::string_view::npos && flag.name.substr(0, comma) == name))
        return &flag;
    }
  }
  return nullptr;
}

class Completer {
 public:
  Completer(const ModelLists& models, std::string_view current) : models_(models), current_(current) {}

  void offer(std::string_view text, std::string_view about = {}) {
    if (text.starts_with(current_)) out_.push_back({before_ + std::string(text), std::string(about)});
  }

  void offer_commands() {
    for (const Command* command : commands()) {
      if (!command->hidden) offer(command->name, command->summary);
    }
  }

  void offer_flags(const Command& command) {
    for (const auto& flags : {command.flags, common_flags()}) {
      for (const Flag& flag : flags) {
        std::string_view about = flag.help.substr(0, flag.help.find_first_of(":;("));
        while (about.ends_with(' ')) about.remove_suffix(1);
        offer(flag.long_name(), about);
      }
    }
  }

  void offer_values(Completes kind, std::string_view choices) {
    for (std::string_view rest = choices; !rest.empty();) {
      const std::size_t bar = rest.find('|');
      offer(rest.substr(0, bar));
      rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
    }
    if (kind == Completes::file) out_.push_back({":file", ""});
    if (kind == Completes::folder) out_.push_back({":folder", ""});
    if (kind == Completes::model && models_.installed) offer_models(models_.installed());
    if (kind == Completes::available_model && models_.available) offer_models(models_.available());
    if (kind == Completes::loaded_model && models_.loaded) offer_models(models_.loaded());
  }

  // The value of `--flag=value`: what stands before it stays.
  void split_value() {
    const std::size_t equals = current_.find('=');
    before_ = std::string(current_.substr(0, equals + 1));
    current_.remove_prefix(equals + 1);
  }

  std::vector<Candidate> take() { return std::move(out_); }

 private:
  // Short names, unless a provider is being typed.
  void offer_models(const std::vector<std::string>& ids) {
    for (const std::string& id : ids) {
      offer(current_.find(':') != std::string_view::npos ? id : short_name(id));
    }
  }

  const ModelLists& models_;
  std::string_view current_;
  std::string before_;
  std::vector<Candidate> out_;
};

}  // namespace

std::vector<Candidate> complete_words(const std::vector<std::string>& words, const ModelLists& models) {
  const std::string_view current = words.empty() ? std::string_view() : std::string_view(words.back());
  Completer completer(models, current);
  if (words.size() <= 1) {
    completer.offer_commands();
    completer.offer("help", "print help of a command");
    if (current.starts_with('-')) {
      completer.offer("--help", "print help");
      completer.offer("--version", "print the version");
    }
    return completer.take();
  }
  if (words.front() == "help") {
    completer.offer_commands();
    return completer.take();
  }
  const Command* command = find_command(words.front());
  if (command == nullptr || command->hidden) return {};

  std::size_t position = 0;
  bool only_positionals = false;
  const Flag* wants_value = nullptr;  // the flag whose value the next word is
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::exchange(wants_value, nullptr) != nullptr) continue;
    if (!only_positionals && word == "--") {
      only_positionals = true;
    } else if (!only_positionals && word.size() > 1 && word.starts_with('-')) {
      const Flag* flag = find_flag(*command, word);
      if (flag != nullptr && flag->kind != Flag::Kind::off_on && word.find('=') == std::string::npos)
        wants_value = flag;
    } else {
      ++position;
    }
  }
  if (wants_value != nullptr) {
    completer.offer_values(wants_value->completes, wants_value->choices);
  } else if (!only_positionals && current.starts_with("--") && current.find('=') != std::string_view::npos) {
    const Flag* flag = find_flag(*command, current);
    completer.split_value();
    if (flag != nullptr) completer.offer_values(flag->completes, flag->choices);
  } else if (!only_positionals && current.starts_with('-')) {
    completer.offer_flags(*command);
  } else if (!command->positionals.empty()) {
    const bool last_repeats = command->positionals.back().repeats;
    if (position >= command->positionals.size() && !last_repeats) return {};
    const Positional& positional = command->positionals[std::min(position, command->positionals.size() - 1)];
    completer.offer_values(positional.completes, positional.choices);
  }
  return completer.take();
}

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  return kFish;
}

}  // namespace gezel::cli
