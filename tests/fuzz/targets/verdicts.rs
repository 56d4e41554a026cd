//! Fuzzes what `checks/verdicts.rs` checks.
#![no_main]

#[path = "../checks/verdicts.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
