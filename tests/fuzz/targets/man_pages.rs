//! Fuzzes what `checks/man_pages.rs` checks.
#![no_main]

#[path = "../checks/man_pages.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
