//! Fuzzes what `checks/http_heads.rs` checks.
#![no_main]

#[path = "../checks/http_heads.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
