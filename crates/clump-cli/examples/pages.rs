//! Writes the man pages of `clump` and its completions for shells: `pages DIR`, the folder `share`
//! of an installation.

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use std::path::Path;
use std::process::ExitCode;

/// Folders of completions below `share`, by shell.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

fn main() -> ExitCode {
    let Some(share) = std::env::args_os().nth(1) else {
        eprintln!("usage: pages DIR");
        return ExitCode::from(2);
    };
    match write(Path::new(&share)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pages: {}: {error}", Path::new(&share).display());
            ExitCode::FAILURE
        }
    }
}

/// Writes all files below `share`.
fn write(share: &Path) -> std::io::Result<()> {
    let mut command = clump_cli::command::Cli::command();
    for (shell, folder) in COMPLETIONS {
        let folder = share.join(folder);
        std::fs::create_dir_all(&folder)?;
        let written = generate_to(shell, &mut command, "clump", &folder)?;
        // bash-completion looks for a file of the program's name.
        if shell == Shell::Bash {
            std::fs::rename(written, folder.join("clump"))?;
        }
    }
    let pages = share.join("man/man1");
    std::fs::create_dir_all(&pages)?;
    clap_mangen::generate_to(without_help(clump_cli::command::Cli::command()), pages)
}

/// Takes the subcommand `help` away everywhere: it would have a page for each other page.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
