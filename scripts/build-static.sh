#!/bin/sh
# Builds the static binary: scripts/build-static.sh [CARGO-BUILD-ARGUMENT...]
# in Cargo's profile PROFILE, by default `release`.
#
# Uses rustup's musl target if it is installed (rustup target add x86_64-unknown-linux-musl).
# Otherwise uses only Debian packages: Debian's rustc compiles the standard library from
# Debian's source. The result is a
# static-pie that needs nothing from the system on which it runs.
set -eu

cd "$(dirname "$0")/.."
readonly target=x86_64-unknown-linux-musl
readonly profile="${PROFILE:-release}"
case $profile in
    dev) folder=debug ;;
    *) folder=$profile ;;
esac
readonly result="${CARGO_TARGET_DIR:-target}/$target/$folder/zsh-tool"

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "build-static: this script supports only Linux on x86_64; elsewhere: cargo build --release --target <a musl target>" >&2
    exit 1
fi
scripts/need cargo gcc musl-gcc ar readelf
# SQLite's C sources are also compiled for musl.
export CC_x86_64_unknown_linux_musl=musl-gcc
# No panic passes through them: what unwinding needs to know of each function is left out.
export CFLAGS_x86_64_unknown_linux_musl="${CFLAGS_x86_64_unknown_linux_musl-} -fno-asynchronous-unwind-tables"

# rustup provides the linker lld, which merges identical functions. Its musl, unlike
# Debian's, can read relocations in the short form (RELR).
build_with_rustup() {
    lld=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld
    cargo rustc --profile "$profile" --target "$target" --bin zsh-tool "$@" -- "-Clink-arg=-B$lld" \
        -Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--icf=all,--pack-dyn-relocs=relr
}

build_with_debian() {
    # A separate sysroot, to which the start files that rustc needs for musl are added.
    sysroot=$PWD/target/static-sysroot
    scripts/debian-sysroot "$sysroot" "$target"
    objects=$sysroot/lib/rustlib/$target/lib/self-contained
    musl=/usr/lib/x86_64-linux-musl
    gcc=$(dirname "$(gcc -print-file-name=crtbegin.o)")
    for object in crt1 Scrt1 crti crtn; do cp "$musl/$object.o" "$objects/"; done
    for object in crtbegin crtbeginS crtbeginT crtend crtendS; do cp "$gcc/$object.o" "$objects/"; done
    # Debian's rcrt1.o cannot read relocations in the short form (RELR), which are 0.4 MiB less.
    musl-gcc -O2 -fPIC -fno-stack-protector -c scripts/rcrt1.c -o "$objects/rcrt1.o"
    cp "$musl/libc.a" "$objects/"
    # std links -lunwind: Debian's libgcc_eh.a is that unwinder, but lacks one symbol
    # of glibc.
    cp "$gcc/libgcc_eh.a" "$objects/libunwind.a"
    chmod u+w "$objects/libunwind.a"
    musl-gcc -O2 -fPIC -c scripts/dl_find_object.c -o "$objects/dl_find_object.o"
    ar r "$objects/libunwind.a" "$objects/dl_find_object.o" 2>/dev/null

    # libgcc_eh refers to pthread_* weakly. Without -u the linker omits them, and the
    # first panic jumps to address 0.
    link=-Wl,-z,pack-relative-relocs
    for symbol in once mutex_lock mutex_unlock key_create getspecific setspecific; do
        link=$link,-u,pthread_$symbol
    done
    # Added to the flags of scripts/release.
    flags=${CARGO_ENCODED_RUSTFLAGS-}
    for flag in -Ctarget-feature=+crt-static -Clink-self-contained=yes "-Clink-arg=$link"; do
        flags=${flags:+$flags$(printf '\037')}$flag
    done
    # Reading its own symbols for the backtrace of a panic is of no use to a stripped binary.
    case $profile in
        release) features=panic-unwind ;;
        *) features=panic-unwind,backtrace ;;
    esac
    # -Z build-std is what RUSTC_BOOTSTRAP is for: Debian has no std for musl.
    RUSTC=$sysroot/rustc RUSTC_BOOTSTRAP=1 CARGO_ENCODED_RUSTFLAGS=$flags \
        cargo build -Z build-std=std,panic_unwind -Z "build-std-features=$features" \
        --profile "$profile" --target "$target" "$@"
}

if scripts/has-target "$target"; then
    echo "build-static: building with rustup's $target" >&2
    build_with_rustup "$@"
else
    echo "build-static: $target is not installed in rustup (rustup target add $target): building with Debian's rustc and its source" >&2
    build_with_debian "$@"
fi

if readelf -l "$result" | grep -q INTERP; then
    echo "build-static: $result is not static: it needs a dynamic loader" >&2
    exit 1
fi
ls -l "$result"
