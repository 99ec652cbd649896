#!/usr/bin/env bash
# Installs the system packages that are needed (Debian 12), and says exactly what is missing when it may not.
#   packages.sh         to build and run
#   packages.sh test    also what the tests need
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  clang-19 lld-19 libomp-19-dev libclang-rt-19-dev cmake ninja-build ccache pkg-config
  libboost1.81-dev libboost-json1.81-dev libssl-dev libcurl4-openssl-dev libfmt-dev libspdlog-dev libcli11-dev libedit-dev libsqlite3-dev libxxhash-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv ca-certificates
)
# A newer toolchain that is already there is used instead of Debian's.
find_cargo >/dev/null || packages+=(rustc-web cargo-web)
if [ "${1:-}" = test ]; then
  have node || packages+=(nodejs)
  have npm || packages+=(npm)
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! have apt-get; then
  die "this set-up knows Debian's packages only; install the equivalents of: ${missing[*]}"
fi
if [ "$(id -u)" -ne 0 ]; then
  as_root=""; where=" as root"
  if have sudo; then as_root="sudo "; where=""; fi
  rust=""
  case " ${missing[*]} " in
    *" cargo-web "*) rust=$'\n'"Rust 1.$RUST_MINOR or newer of this user's own, for example by rustup, does instead of rustc-web and cargo-web." ;;
  esac
  die "these system packages are missing: ${missing[*]}
Run this$where, then the same command again:
  ${as_root}apt-get update && ${as_root}apt-get install -y --no-install-recommends ${missing[*]}$rust"
fi
say "installing system packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
quietly "$CACHE/logs/apt-update.log" apt-get update
quietly "$CACHE/logs/apt-install.log" apt-get install -y --no-install-recommends "${missing[@]}"
