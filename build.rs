//! How the program is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}"));
    let is = |name: &str, value: &str| of_target(name).is_ok_and(|found| found == value);
    if is("OS", "linux") && is("ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
