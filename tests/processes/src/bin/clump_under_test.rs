//! The `clump` program, built for these tests.

fn main() -> std::process::ExitCode {
    clump_cli::main()
}
