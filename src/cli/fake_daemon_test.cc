// The helpers of fake_daemon.h.
#include "cli/fake_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "cli/run_cli.h"

namespace gezel::cli {

std::string json_reply(int status, std::string_view body) {
  return fmt::format("HTTP/1.1 {} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
                     status, body.size(), body);
}

std::vector<std::string> event_reply(const std::vector<std::string>& events) {
  std::vector<std::string> pieces{
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"};
  for (const std::string& event : events) {
    const std::string text = event.starts_with(':') ? event + "\n\n" : "data: " + event + "\n\n";
    pieces.push_back(fmt::format("{:x}\r\n{}\r\n", text.size(), text));
  }
  pieces.emplace_back("0\r\n\r\n");
  return pieces;
}

TestWorld::TestWorld() {
  env.home = home_.path();
  env.version = "9.8.7";
  env.executable = env.home / "bin" / "gezel";
  env.out = &out;
  env.err = &err;
  env.input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  env.clock = &clock_;
  env.entropy = &entropy_;
  env.serve = [](const http::DaemonOptions&) { return 0; };
}

TestWorld::~TestWorld() {
  ::close(env.input);
}

void TestWorld::point_to(const FakeDaemon& daemon) {
  const fs::path runtime = env.home / "runtime";
  fs::create_directories(runtime);
  std::ofstream(runtime / "pid") << ::getpid() << '\n';
  std::ofstream(runtime / "auth-token") << "secret-token";
  std::ofstream(runtime / "port") << daemon.port() << '\n';
}

void TestWorld::pipe_in(std::string_view text) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  (void)!::write(ends[1], text.data(), text.size());
  ::close(ends[1]);
  ::close(env.input);
  env.input = ends[0];
}

int TestWorld::run(const std::vector<std::string>& words) {
  return run_cli(words, env);
}

}  // namespace gezel::cli
