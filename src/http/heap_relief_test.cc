#include "http/heap_relief.h"

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

class Relief : public RouterTest {
 protected:
  int times = 0;
  HeapRelief relief{loop.get_executor(), loop.get_executor(), [this] { ++times; }, Millis(0)};
  void settle() {
    loop.restart();
    loop.run();
  }
};

TEST_F(Relief, ComesOnceForAllLargeBodiesOfAPause) {
  for (int i = 0; i < 3; ++i) relief.freed(kLargeBody);
  settle();
  EXPECT_EQ(times, 1);
  relief.freed(kLargeBody);
  settle();
  EXPECT_EQ(times, 2);
}

TEST_F(Relief, IsNotWorthItForSmallBodies) {
  for (int i = 0; i < 1000; ++i) relief.freed(kLargeBody - 1);
  settle();
  EXPECT_EQ(times, 0);
}

TEST_F(Relief, DoesNotComeAfterTheStop) {
  relief.freed(kLargeBody);
  relief.stop();
  relief.freed(kLargeBody);
  settle();
  EXPECT_EQ(times, 0);
}

TEST_F(Relief, FollowsARequestWithALargeBodyHoweverItEnds) {
  router.emplace(
      Services{inference, credentials, clock, entropy, loop.get_executor(), pool, [] {}, false, {}, &relief});
  EXPECT_EQ(send(post("/v1/chat/completions", std::string(kLargeBody, '['))).status, 400);
  EXPECT_EQ(times, 1);
  for (engine::Event event : {engine::Event(engine::Started{}), engine::Event(done())})
    inference.script->push(event);
  EXPECT_EQ(send(chat(R"(,"metadata":")" + std::string(kLargeBody, 'x') + "\"")).status, 200);
  EXPECT_GE(times, 2);
}

}  // namespace
}  // namespace gezel::http::test
