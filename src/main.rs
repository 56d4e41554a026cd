//! The binary: everything is in the library, see `lib.rs` for the architecture.

fn main() -> std::process::ExitCode {
    zsh_tool::app::run()
}
