// downloads/reach.h
//
// Whether an address of the network is one that anybody may name. Who may name addresses must not learn
// through us what other machines of this network answer, or have them do something. Pure.
#pragma once
#include <span>
#include <string_view>

namespace gezel::downloads {

// Of 4 or 16 bytes in the order of the network. Not public: this machine, private networks, link-local
// addresses, those of carriers, multicast and what is reserved (RFC 6890, RFC 4193, RFC 4291); an IPv4
// address inside an IPv6 one counts as itself.
bool is_public_address(std::span<const unsigned char> bytes);

// Of a host as an address writes it: false for "10.0.0.1" and "[fe80::1]"; true for every name, whose address
// nobody knows yet.
bool may_be_public(std::string_view host);

}  // namespace gezel::downloads
