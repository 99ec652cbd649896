// downloads/sha256.h
//
// SHA-256 of data that comes in pieces.
#pragma once
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace gezel::downloads {

class Sha256 {
 public:
  Sha256();
  void reset();
  void update(std::string_view data);
  std::string hex();  // of everything since reset(); ends this run

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

}  // namespace gezel::downloads
