//! Fuzzes what `checks/socket_messages.rs` checks.
#![no_main]

#[path = "../checks/socket_messages.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
