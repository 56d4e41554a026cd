#!/bin/sh
# Builds the static binary: scripts/build-static.sh [CARGO-BUILD-ARGUMENT...]
#
# Uses rustup's musl target if rustup can fetch it. Otherwise uses only Debian packages:
# Debian's rustc compiles the standard library from Debian's source. The result is a
# static-pie that needs nothing from the system on which it runs.
set -eu

cd "$(dirname "$0")/.."
readonly target=x86_64-unknown-linux-musl
readonly result=target/$target/release/zsh-tool

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "build-static: this script supports only Linux on x86_64; elsewhere: cargo build --release --target <a musl target>" >&2
    exit 1
fi
scripts/need cargo gcc musl-gcc ar readelf
# SQLite's C sources are also compiled for musl.
export CC_x86_64_unknown_linux_musl=musl-gcc

build_with_rustup() {
    cargo build --release --target "$target" "$@"
}

build_with_debian() {
    scripts/need debian-rustc debian-rust-source
    compiler=$(/usr/bin/rustc -V | cut -d' ' -f2)
    source=$(basename "$(readlink -f /usr/lib/rustlib/src/rust)")
    if [ "rustc-$compiler" != "$source" ]; then
        echo "build-static: rustc-web is $compiler but rust-web-src is $source: upgrade both to one version" >&2
        exit 1
    fi

    # A separate sysroot that links to Debian's and adds the folder of start files
    # that rustc needs for musl. Nothing outside target/ is written.
    sysroot=$PWD/target/static-sysroot
    rustlib=$sysroot/lib/rustlib
    objects=$rustlib/$target/lib/self-contained
    musl=/usr/lib/x86_64-linux-musl
    gcc=$(dirname "$(gcc -print-file-name=crtbegin.o)")
    rm -rf -- "$sysroot"
    mkdir -p "$objects"
    for entry in src x86_64-unknown-linux-gnu; do
        ln -s "/usr/lib/rustlib/$entry" "$rustlib/$entry"
    done
    for object in crt1 rcrt1 Scrt1 crti crtn; do cp "$musl/$object.o" "$objects/"; done
    for object in crtbegin crtbeginS crtbeginT crtend crtendS; do cp "$gcc/$object.o" "$objects/"; done
    cp "$musl/libc.a" "$objects/"
    # std links -lunwind: Debian's libgcc_eh.a is that unwinder, but lacks one symbol
    # of glibc.
    cp "$gcc/libgcc_eh.a" "$objects/libunwind.a"
    chmod u+w "$objects/libunwind.a"
    musl-gcc -O2 -fPIC -c scripts/dl_find_object.c -o "$objects/dl_find_object.o"
    ar r "$objects/libunwind.a" "$objects/dl_find_object.o" 2>/dev/null

    printf '#!/bin/sh\nexec /usr/bin/rustc --sysroot "%s" "$@"\n' "$sysroot" >"$sysroot/rustc"
    chmod +x "$sysroot/rustc"

    # libgcc_eh refers to pthread_* weakly. Without -u the linker omits them, and the
    # first panic jumps to address 0.
    pull=-Wl
    for symbol in once mutex_lock mutex_unlock key_create getspecific setspecific; do
        pull=$pull,-u,pthread_$symbol
    done
    # Added to the flags of scripts/release.
    flags=${CARGO_ENCODED_RUSTFLAGS-}
    for flag in -Ctarget-feature=+crt-static -Clink-self-contained=yes "-Clink-arg=$pull"; do
        flags=${flags:+$flags$(printf '\037')}$flag
    done
    # -Z build-std is what RUSTC_BOOTSTRAP is for: Debian has no std for musl.
    RUSTC=$sysroot/rustc RUSTC_BOOTSTRAP=1 CARGO_ENCODED_RUSTFLAGS=$flags \
        cargo build -Z build-std=std,panic_unwind --release --target "$target" "$@"
}

if command -v rustup >/dev/null 2>&1 && rustup target add "$target" >/dev/null 2>&1; then
    echo "build-static: building with rustup's $target" >&2
    build_with_rustup "$@"
else
    echo "build-static: rustup cannot provide $target: building with Debian's rustc and its source" >&2
    build_with_debian "$@"
fi

if readelf -l "$result" | grep -q INTERP; then
    echo "build-static: $result is not static: it needs a dynamic loader" >&2
    exit 1
fi
ls -l "$result"
