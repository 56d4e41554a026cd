//! The composition root.

/// Runs the program.
pub fn run() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
