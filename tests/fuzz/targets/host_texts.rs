//! Fuzzes what `checks/host_texts.rs` checks.
#![no_main]

#[path = "../checks/host_texts.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
