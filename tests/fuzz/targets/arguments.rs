//! Fuzzes what `checks/arguments.rs` checks.
#![no_main]

#[path = "../checks/arguments.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
