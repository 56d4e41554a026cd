//! Fuzzes what `checks/frames.rs` checks.
#![no_main]

#[path = "../checks/frames.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
