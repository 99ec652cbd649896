// libedit reads one character at a time and calls back for keys bound to functions of ours; that is how
// pasted text (which terminals put between ESC [200~ and ESC [201~) keeps its line breaks instead of sending
// line after line.
#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cwchar>
#include <fstream>
#include <ostream>

#include "base/files.h"
#include "cli/console.h"
#include "cli/printer.h"

namespace gezel::cli {
namespace {

constexpr int kHistorySize = 1'000;

class PipeEditor final : public LineEditor {
 public:
  explicit PipeEditor(int descriptor) : descriptor_(descriptor) {}

  InputLine read() override {
    for (;;) {
      std::string line;
      const bool more = read_line(line);
      if (Interrupt::raised()) return {InputLine::Kind::interrupted, {}};
      if (!more && line.empty()) {
        if (auto rest = assembler_.finish()) return {InputLine::Kind::text, std::move(*rest)};
        return {InputLine::Kind::end, {}};
      }
      if (auto message = assembler_.feed(std::move(line)))
        return {InputLine::Kind::text, std::move(*message)};
    }
  }

 private:
  // False at the end of input; `line` then has what came without a newline.
  bool read_line(std::string& line) {
    for (;;) {
      const std::size_t newline = buffer_.find('\n');
      if (newline != std::string::npos || buffer_.size() >= kMaxMessage) {
        line = buffer_.substr(0, std::min(newline, buffer_.size()));
        buffer_.erase(0, newline == std::string::npos ? buffer_.size() : newline + 1);
        if (line.ends_with('\r')) line.pop_back();
        return true;
      }
      char piece[4096];
      const ssize_t got = wait_for_input(descriptor_) ? ::read(descriptor_, piece, sizeof piece) : 0;
      if (got <= 0) {
        line = std::exchange(buffer_, {});
        return false;
      }
      buffer_.append(piece, static_cast<std::size_t>(got));
    }
  }

  int descriptor_;
  std::string buffer_;
  MessageAssembler assembler_;
};

// libedit's callbacks carry no pointer that fits every use; one terminal has one editor.
const char* current_prompt = ">>> ";
const char* prompt_text(EditLine*) {
  return current_prompt;
}

unsigned char insert_newline(EditLine* edit, int) {
  return el_winsertstr(edit, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char insert_paste(EditLine* edit, int) {
  constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
  std::wstring text;
  wchar_t c = 0;
  while (text.size() < kMaxMessage && el_wgetc(edit, &c) == 1) {
    text += c == L'\r' ? L'\n' : c;
    if (text.ends_with(kPasteEnd)) {
      text.resize(text.size() - kPasteEnd.size());
      break;
    }
  }
  std::erase_if(text,
                [](wchar_t w) { return (w < 0x20 && w != L'\n' && w != L'\t') || (w >= 0x7f && w < 0xa0); });
  while (text.ends_with(L'\n'))
    text.pop_back();  // a copied line usually has its end with it; Enter stays the user's
  return text.empty() || el_winsertstr(edit, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

// Whether the terminal was told to mark pasted text. That is said when the first key is asked for: only then
// has libedit taken over the editing from the terminal.
bool paste_mode = false;

// One character from the terminal. libedit's own reader swallows the first Ctrl-C; ours ends the line.
int read_character(EditLine*, wchar_t* out) {
  if (!std::exchange(paste_mode, true)) {
    std::fputs("\x1b[?2004h", stdout);
    std::fflush(stdout);
  }
  std::string bytes;
  for (;;) {
    char byte = 0;
    if (!wait_for_input(STDIN_FILENO)) return -1;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got <= 0) return static_cast<int>(got);
    bytes += byte;
    std::mbstate_t state{};
    const std::size_t used = std::mbrtowc(out, bytes.data(), bytes.size(), &state);
    if (used == static_cast<std::size_t>(-2) && bytes.size() < MB_LEN_MAX)
      continue;  // more bytes of it will come
    if (used > MB_LEN_MAX) *out = 0xfffd;
    return 1;
  }
}

class TerminalEditor final : public LineEditor {
 public:
  TerminalEditor(const Environment& env, fs::path history_file)
      : env_(env), history_file_(std::move(history_file)) {
    use_utf8_locale();
    edit_ = el_init("gezel", stdin, stdout, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistorySize);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_PROMPT, prompt_text);
    el_set(edit_, EL_GETCFN, read_character);
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_ADDFN, "gezel-newline", "Insert a line break", insert_newline);
    el_set(edit_, EL_ADDFN, "gezel-paste", "Insert pasted text", insert_paste);
    el_set(edit_, EL_BIND, "^[^M", "gezel-newline", nullptr);
    el_set(edit_, EL_BIND, "^[^J", "gezel-newline", nullptr);
    el_set(edit_, EL_BIND, "^[[200~", "gezel-paste", nullptr);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // Words by Ctrl or Alt with the arrows, Home, End and Delete, as terminals send them.
    el_set(edit_, EL_BIND, "^[[1;5C", "em-next-word", nullptr);
    el_set(edit_, EL_BIND, "^[[1;5D", "ed-prev-word", nullptr);
    el_set(edit_, EL_BIND, "^[[1;3C", "em-next-word", nullptr);
    el_set(edit_, EL_BIND, "^[[1;3D", "ed-prev-word", nullptr);
    el_set(edit_, EL_BIND, "^[[H", "ed-move-to-beg", nullptr);
    el_set(edit_, EL_BIND, "^[[F", "ed-move-to-end", nullptr);
    el_set(edit_, EL_BIND, "^[[3~", "ed-delete-next-char", nullptr);
  }

  ~TerminalEditor() override {
    save_history();
    history_end(history_);
    el_end(edit_);
  }

  InputLine read() override {
    const Interrupt interrupt;  // Ctrl-C ends the line, not the program
    Interrupt::clear();
    el_resize(edit_);
    InputLine line = read_message();
    assembler_.reset();
    return line;
  }

 private:
  InputLine read_message() {
    for (;;) {
      current_prompt = assembler_.open() ? "... " : ">>> ";
      int count = 0;
      paste_mode = false;
      const char* got = el_gets(edit_, &count);
      if (paste_mode) *env_.out << "\x1b[?2004l" << std::flush;
      if (Interrupt::raised()) {
        el_reset(edit_);
        *env_.out << '\n' << std::flush;
        return {InputLine::Kind::interrupted, {}};
      }
      if (got == nullptr || count <= 0) {
        *env_.out << '\n' << std::flush;
        if (auto rest = assembler_.finish()) return {InputLine::Kind::text, std::move(*rest)};
        return {InputLine::Kind::end, {}};
      }
      std::string text(got, static_cast<std::size_t>(count));
      if (text.ends_with('\n')) text.pop_back();
      if (auto message = assembler_.feed(std::move(text))) {
        remember(*message);
        return {InputLine::Kind::text, std::move(*message)};
      }
    }
  }

  void remember(const std::string& message) {
    if (message.find_first_not_of(" \t\n") == std::string::npos) return;
    HistEvent event;
    history(history_, &event, H_ENTER, message.c_str());
  }

  // What people type is private: the file is created for its owner alone before anything is written into it.
  void save_history() {
    if (history_file_.empty()) return;
    if (!make_private_folder(history_file_.parent_path())) return;
    std::error_code ignored;
    if (!fs::exists(history_file_, ignored) && !write_file_atomic(history_file_, "", 0600, false)) return;
    HistEvent event;
    history(history_, &event, H_SAVE, history_file_.c_str());
  }

  const Environment& env_;
  fs::path history_file_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  MessageAssembler assembler_;
};

}  // namespace

std::optional<std::string> MessageAssembler::feed(std::string line) {
  constexpr std::string_view kQuote = "\"\"\"";
  if (quoted_) {
    const bool ends = std::string_view(line).ends_with(kQuote);
    if (ends) line.resize(line.size() - kQuote.size());
    text_ += line;
    if (ends) {
      if (text_.ends_with('\n')) text_.pop_back();
      return finish();
    }
    text_ += '\n';
  } else if (!continued_ && std::string_view(line).starts_with(kQuote)) {
    line.erase(0, kQuote.size());
    quoted_ = true;
    if (!line.empty()) return feed(std::move(line));
  } else if (line.ends_with('\\')) {
    line.back() = '\n';
    text_ += line;
    continued_ = true;
  } else {
    text_ += line;
    continued_ = true;  // so that finish() returns even an empty text
    return finish();
  }
  if (text_.size() > kMaxMessage) return finish();
  return std::nullopt;
}

std::optional<std::string> MessageAssembler::finish() {
  if (!open()) return std::nullopt;
  std::string text = std::exchange(text_, {});
  reset();
  return text;
}

void MessageAssembler::reset() {
  text_.clear();
  quoted_ = continued_ = false;
}

std::unique_ptr<LineEditor> LineEditor::open(const Environment& env, const fs::path& history) {
  if (env.input_is_terminal && env.out_is_terminal) return std::make_unique<TerminalEditor>(env, history);
  return std::make_unique<PipeEditor>(env.input);
}

}  // namespace gezel::cli
