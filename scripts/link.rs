//! Cargo's build script: gives the linker the order of code in data/cold.ld.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=data/cold.ld");
    let var = |name| env::var(name).unwrap_or_default();
    // The linkers of other systems, and some that a user may choose, cannot read it.
    let is_chosen = var("CARGO_ENCODED_RUSTFLAGS").contains("-fuse-ld=");
    if var("CARGO_CFG_TARGET_OS") == "linux" && var("PROFILE") == "release" && !is_chosen {
        let root = var("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-link-arg-bin=zsh-tool=-T{root}/data/cold.ld");
    }
}
