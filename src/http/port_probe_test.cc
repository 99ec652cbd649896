#include "http/port_probe.h"

#include <gtest/gtest.h>

#include "http/test_listener.h"

namespace gezel::http::test {
namespace {

TEST_F(ListenerTest, ProbeRecognisesAnotherDaemon) {
  listen();
  run([](ListenerTest& test) -> asio::awaitable<void> {
    EXPECT_EQ(co_await probe_port(test.listener->port()), Occupant::gezel);
    co_await test.listener->close(Millis(2'000));
    EXPECT_EQ(co_await probe_port(test.listener->port()), Occupant::unknown);
  }(*this));
}

TEST(PortProbe, TellsOccupantsApart) {
  EXPECT_EQ(classify_occupant("HTTP/1.1 200 OK\r\n\r\n{\"ok\":true}"), Occupant::gezel);
  EXPECT_EQ(classify_occupant("HTTP/1.1 401 Unauthorized\r\n\r\n"), Occupant::gezel);
  EXPECT_EQ(classify_occupant("HTTP/1.1 404 Not Found\r\n\r\n"), Occupant::foreign);
  EXPECT_EQ(classify_occupant("SSH-2.0"), Occupant::unknown);
  EXPECT_EQ(classify_occupant(""), Occupant::unknown);
}

}  // namespace
}  // namespace gezel::http::test
