//! Fuzzes what `checks/templates.rs` checks.
#![no_main]

#[path = "../checks/templates.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
