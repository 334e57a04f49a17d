//! The `clump` program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    clump_cli::main()
}
