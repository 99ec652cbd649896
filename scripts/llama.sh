#!/usr/bin/env bash
# Builds libllama from the pinned source into the cache and prints the prefix on stdout.
#   llama.sh [native|sanitize|peers]
# native    static, Release, tuned to this processor: what the service runs on
# sanitize  the same without OpenMP, whose runtime the sanitizers do not understand
# peers     llama-bench and llama-server of the same source, which `make bench` measures against
# Most objects are the same in all three, so ccache, where it is installed, compiles them once.
# The key holds everything that changes the result; a native build does not travel, so the processor is part of it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
variant="${1:-native}"

cc="${GEZEL_CC:-clang-19}"; cxx="${GEZEL_CXX:-clang++-19}"
have "$cc" || die "$cc is missing; run: scripts/packages.sh"

cpu_key() { grep -m1 -E '^model name' /proc/cpuinfo 2>/dev/null; grep -m1 -E '^(flags|Features)' /proc/cpuinfo 2>/dev/null; uname -m; }

options=(
  -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx"
  -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_CCACHE=OFF
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
)
case "$variant" in
  native)   options+=(-DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DGGML_OPENMP=ON) ;;
  sanitize) options+=(-DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DGGML_OPENMP=OFF) ;;
  peers)    options+=(-DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON -DGGML_OPENMP=ON
                      -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF) ;;
  *) die "unknown variant '$variant' (native, sanitize or peers)" ;;
esac

# GCC before 13 drops part of ggml's AMX tile configuration and the first prompt crashes (docs/dependencies.md).
if ! "$cxx" --version | grep -qi clang; then
  major="$("$cxx" -dumpversion | cut -d. -f1)"
  if [ "$major" -lt 13 ] && [ "$(uname -m)" = x86_64 ]; then
    say "GCC $major: building libllama without AMX (this compiler breaks its tile set-up)"
    options+=("-DCMAKE_C_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" "-DCMAKE_CXX_FLAGS=-mno-amx-tile -mno-amx-int8 -mno-amx-bf16")
  fi
fi

key="$( { echo "$LLAMA_VERSION $LLAMA_SHA256"; "$cxx" --version | head -1; printf '%s\n' "${options[@]}"; cpu_key; } | sha256sum | cut -c1-16)"
prefix="$CACHE/llama-$variant-$LLAMA_VERSION-$key"
if [ -f "$prefix/.complete" ]; then echo "$prefix"; exit 0; fi

lock_cache
if [ -f "$prefix/.complete" ]; then echo "$prefix"; exit 0; fi
"$ROOT/scripts/fetch.sh" llama >/dev/null
source_dir="$LLAMA_SOURCE/vendor/llama.cpp"
work="$CACHE/work/llama-$variant-$key"
say "building libllama ($variant): two to four minutes on two cores, once per machine"
mkdir -p "$work"
# Not part of the key: the objects are the same with and without it.
launcher=()
if have ccache; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR="$CACHE" CCACHE_NOHASHDIR=1
fi
quietly "$CACHE/logs/llama-$variant-configure.log" cmake -S "$source_dir" -B "$work" "${options[@]}" "${launcher[@]}" -DCMAKE_INSTALL_PREFIX="$prefix"
if [ "$variant" = peers ]; then
  quietly "$CACHE/logs/llama-$variant-build.log" cmake --build "$work" --target llama-bench llama-server
  mkdir -p "$prefix/bin"
  cp "$work/bin/llama-bench" "$work/bin/llama-server" "$prefix/bin/"
else
  quietly "$CACHE/logs/llama-$variant-build.log" cmake --build "$work"
  quietly "$CACHE/logs/llama-$variant-install.log" cmake --install "$work"
fi
touch "$prefix/.complete"
rm -rf "$work"
echo "$prefix"
