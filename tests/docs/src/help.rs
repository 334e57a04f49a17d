//! Command lines that helps print: the examples below the options of each command.

use crate::printed::Printed;
use clap::{Command, CommandFactory};
use clump_cli::command::Cli;

/// Returns the examples of all commands that are not hidden, with the command as their page.
pub fn examples() -> Vec<Printed> {
    let mut all = Vec::new();
    collect(&Cli::command(), "", &mut all);
    all
}

fn collect(command: &Command, above: &str, all: &mut Vec<Printed>) {
    let name = format!("{above} {}", command.get_name()).trim().to_owned();
    let texts = [command.get_after_help(), command.get_after_long_help(), command.get_long_about()];
    for text in texts.into_iter().flatten() {
        all.extend(of_text(&name, &text.to_string()));
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below, &name, all);
    }
}

/// Returns the command lines of a text: lines that begin with `clump`, up to the blanks before what
/// they do; one that ends with a backslash goes on in the next.
fn of_text(page: &str, text: &str) -> Vec<Printed> {
    let mut all: Vec<Printed> = Vec::new();
    let mut continued = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let words = line.split("  ").next().unwrap_or_default();
        let text = words.trim_end_matches('\\').trim_end().to_owned();
        match all.last_mut().filter(|_| continued) {
            Some(last) => last.text = format!("{} {text}", last.text),
            None if line.starts_with("clump ") => {
                let page = format!("{page} --help");
                all.push(Printed { page, line: at + 1, block: Some(1), text });
            }
            None => continue,
        }
        continued = words.ends_with('\\');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn examples_end_before_what_they_do() {
        let text = "Examples:\n  clump a -n 2      two ranks\n                    and more\n  \
                    clump b \\\n      --c d\nno clump";
        let all: Vec<_> = of_text("clump", text).into_iter().map(|line| line.text).collect();
        assert_eq!(all, ["clump a -n 2", "clump b --c d"]);
    }
}
