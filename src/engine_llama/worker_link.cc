#include "engine_llama/worker_link.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace gezel::engine_llama {

namespace asio = boost::asio;
using boost::system::error_code;

std::shared_ptr<WorkerLink> WorkerLink::open(const asio::any_io_executor& loop, Fd socket, Hooks hooks) {
  auto link = std::make_shared<WorkerLink>(loop);
  link->socket_.assign(asio::local::stream_protocol(), socket.release());
  link->hooks_ = std::move(hooks);
  link->read();
  return link;
}

void WorkerLink::send(std::string frame) {
  if (!socket_.is_open()) return;
  unsent_.push_back(std::move(frame));
  if (!writing_) write();
}

void WorkerLink::close() {
  error_code ignored;
  socket_.close(ignored);
  hooks_ = {};  // a call that is running in one of them runs in a copy
}

void WorkerLink::end(std::optional<Error> error) {
  auto closed = hooks_.closed;
  close();
  if (closed) closed(std::move(error));
}

void WorkerLink::read() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const error_code& failed, std::size_t size) {
                            if (!self->socket_.is_open()) return;
                            if (failed) return self->end(std::nullopt);
                            self->dispatch(size);
                          });
}

void WorkerLink::dispatch(std::size_t size) {
  reader_.feed(std::string_view(buffer_.data(), size));
  while (socket_.is_open()) {
    auto frame = reader_.next();
    if (!frame) return end(frame.error());
    if (!*frame) return read();
    const auto call = hooks_.frame;
    call(std::move(**frame));
  }
}

void WorkerLink::write() {
  writing_ = true;
  asio::async_write(socket_, asio::buffer(unsent_.front()),
                    [self = shared_from_this()](const error_code& failed, std::size_t) {
                      self->writing_ = false;
                      // A broken transport is noticed by the reader, after what the worker said last has been
                      // read.
                      if (failed || !self->socket_.is_open()) return self->unsent_.clear();
                      self->unsent_.pop_front();
                      if (!self->unsent_.empty()) self->write();
                    });
}

std::shared_ptr<OutputReader> OutputReader::open(const asio::any_io_executor& loop, Fd fd,
                                                 std::function<void(std::string_view)> bytes,
                                                 std::function<void()> ended) {
  auto reader = std::make_shared<OutputReader>(loop);
  reader->stream_.assign(fd.release());
  reader->bytes_ = std::move(bytes);
  reader->ended_ = std::move(ended);
  reader->read();
  return reader;
}

void OutputReader::close() {
  error_code ignored;
  stream_.close(ignored);
  bytes_ = nullptr;
  ended_ = nullptr;
}

void OutputReader::read() {
  stream_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](const error_code& failed, std::size_t size) {
                            if (!self->stream_.is_open()) return;
                            if (failed) {
                              auto ended = std::move(self->ended_);
                              self->close();
                              return ended();
                            }
                            self->bytes_(std::string_view(self->buffer_.data(), size));
                            self->read();
                          });
}

}  // namespace gezel::engine_llama
