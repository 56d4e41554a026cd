//! Fuzzes what `checks/sessions.rs` checks.
#![no_main]

#[path = "../checks/sessions.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
