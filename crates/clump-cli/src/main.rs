//! The `clump` program.

fn main() -> std::process::ExitCode {
    clump_cli::main()
}
