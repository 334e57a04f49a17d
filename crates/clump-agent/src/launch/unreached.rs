//! Words for a machine on which no agent came to life: what happened, on which machine, and the
//! remedy. Pure.

use super::staged::NOEXEC;
use clump_os::printable::printable_lines;

/// Facts about the attempt.
#[derive(Debug, Default)]
pub(super) struct Attempt<'a> {
    /// The machine's name.
    pub(super) machine: &'a str,
    /// The machine from which it was to be reached; none: this one.
    pub(super) starter: Option<&'a str>,
    /// The name of the program that was to reach it.
    pub(super) shell: &'a str,
    /// The command by which the user sees what clump says there.
    pub(super) trial: &'a str,
    /// The path of clump there.
    pub(super) clump: &'a str,
    /// The code with which that program ended, if it did.
    pub(super) code: Option<u8>,
    /// Text on its error stream.
    pub(super) errors: &'a str,
    /// Text on its output that is no hello.
    pub(super) output: &'a str,
    /// Seconds after which it was given up, if it was.
    pub(super) waited_s: Option<f64>,
}

/// Lines of other programs that are shown.
const MAX_LINES: usize = 4;

/// Parts of what OpenSSH says, in lower case, and the remedy for each.
const REMEDIES: [(&str, &str); 10] = [
    (
        "remote host identification has changed",
        "another machine answers by that name, or it was set up anew: if it was, `ssh-keygen -R MACHINE`",
    ),
    (
        "host key verification failed",
        "that machine is not known here yet: log in once by `ssh MACHINE` and compare its fingerprint",
    ),
    (
        "permission denied",
        "that machine wants another key or a password: `ssh-copy-id MACHINE`, or name the key (--ssh \"ssh -i KEY\")",
    ),
    (
        "could not resolve hostname",
        "no machine has that name here: look at the spelling, ~/.ssh/config and /etc/hosts",
    ),
    (
        "connection refused",
        "no sshd listens there: start it, or name its port (--ssh \"ssh -p PORT\")",
    ),
    ("no route to host", "that machine is down, or no network leads to it"),
    ("network is unreachable", "no network of this machine leads there"),
    ("timed out", "that machine is down, or a firewall swallows what goes to its sshd"),
    ("no space left", "make room on that machine's disk"),
    ("mktemp:", TEMPORARY),
];

/// The remedy for a folder of temporary files that does not do.
const TEMPORARY: &str = "name another folder for temporary files: TMPDIR on that machine, or `--env TMPDIR=DIR` for all";

/// Explains it, and returns the code to exit with.
pub(super) fn explain(attempt: &Attempt<'_>) -> (String, u8) {
    let Attempt { machine, starter, shell, trial, clump, code, errors, output, waited_s } = attempt;
    let said = errors.to_lowercase();
    // With these codes it is the machine's shell that speaks.
    let known = REMEDIES.iter().filter(|_| !matches!(code, Some(126 | 127)));
    let known = known.clone().find(|(part, _)| said.contains(part));
    let from = starter.map_or(String::new(), |starter| format!(" from machine {starter}"));
    let mut on_there = format!("`{trial}` shows what happens there");
    if let Some(starter) = starter {
        on_there.push_str(&format!(
            "; {starter} starts it, unless this machine does (CLUMP_START_FAN_OUT)"
        ));
    }
    let (what, remedy, exit) = match (known, waited_s, code) {
        (_, Some(seconds), _) => (
            format!("machine {machine} gave no sign of an agent within {seconds:.0} s"),
            format!(
                "{on_there}; a login there must neither ask nor wait (CLUMP_START_TIMEOUT_MS bounds the time)"
            ),
            125,
        ),
        (Some((_, remedy)), _, _) => (
            format!("machine {machine} cannot be reached by `{shell}`{from}"),
            remedy.replace("MACHINE", machine),
            125,
        ),
        (_, _, Some(127)) => (
            format!("machine {machine} has no clump at `{clump}`"),
            "install the same build there; `--agent PATH` says where it is, and `--stage` copies it there".into(),
            127,
        ),
        (_, _, Some(126)) if errors.contains(NOEXEC) => (
            format!("machine {machine} starts no programs in its folder for temporary files (--stage)"),
            TEMPORARY.into(),
            126,
        ),
        (_, _, Some(126)) => (
            format!("machine {machine} cannot run `{clump}`"),
            "it is no program for that machine, or not executable there (chmod +x, or a file system mounted noexec)".into(),
            126,
        ),
        (_, _, Some(code)) => (
            format!("no agent came to life on machine {machine}: `{shell}` ended with code {code}"),
            on_there,
            125,
        ),
        (_, _, None) => (
            format!("what `{shell}` reaches on machine {machine} is no agent of clump"),
            format!("{on_there}; `--agent PATH` names another clump there"),
            125,
        ),
    };
    let mut lines = vec![what];
    // The end of what was said is nearest to the failure.
    let all: Vec<&str> =
        output.lines().chain(errors.lines()).map(str::trim).filter(|l| !l.is_empty()).collect();
    let shown = all.len().saturating_sub(MAX_LINES);
    lines.extend(all[shown..].iter().map(|line| format!("  said:   {}", cut(line))));
    lines.push(format!("  next:   {remedy}"));
    debug_assert!(lines.len() <= MAX_LINES + 2, "one short block");
    (printable_lines(&lines.join("\n")), exit)
}

/// Returns a line, shortened if it is long.
fn cut(line: &str) -> String {
    const MAX_CHARS: usize = 200;
    let mut short: String = line.chars().take(MAX_CHARS).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: Option<u8>, errors: &str, output: &str) -> (String, u8) {
        let (machine, shell, clump) = ("b", "ssh", "/usr/bin/clump");
        let starter = None;
        let (trial, waited_s) = ("ssh b /usr/bin/clump --version", None);
        explain(&Attempt { machine, starter, shell, trial, clump, code, errors, output, waited_s })
    }

    #[test]
    fn whatever_goes_wrong_names_the_machine_and_a_remedy() {
        for (code, errors, remedy) in [
            (255, "ssh: connect to host b port 22: Connection refused\r\n", "ssh -p PORT"),
            (255, "ssh: Could not resolve hostname b: Name or service not known", "/etc/hosts"),
            (255, "Host key verification failed.", "log in once by `ssh b`"),
            (
                255,
                "@ REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "-R b",
            ),
            (255, "root@b: Permission denied (publickey,password).", "ssh-copy-id b"),
            (255, "ssh: connect to host b port 22: Connection timed out", "firewall"),
            (1, "mkdir: cannot create: No space left on device", "room"),
            (127, "sh: 1: /usr/bin/clump: not found", "install the same build there"),
            (126, "sh: 1: /usr/bin/clump: Exec format error", "no program for that machine"),
            (126, "sh: 1: /usr/bin/clump: Permission denied", "chmod +x"),
            (126, "/tmp runs no programs (noexec)", "--env TMPDIR=DIR"),
            (1, "mktemp: failed to create directory: No such file or directory", "TMPDIR"),
            (1, "", "ssh b /usr/bin/clump --version"),
        ] {
            let (text, exit) = of(Some(code), errors, "");
            assert!(text.lines().next().unwrap().contains("machine b"), "{text}");
            assert!(text.contains(remedy), "{text}\nlacks {remedy}");
            assert!(text.contains("  next:   "), "{text}");
            assert_eq!(exit, if matches!(code, 126 | 127) { code } else { 125 });
            if let Some(last) = errors.lines().last() {
                assert!(text.contains(last.trim()), "{text}");
            }
        }
    }

    #[test]
    fn what_a_login_says_instead_is_shown_in_few_lines_without_control_characters() {
        let (text, _) = of(Some(1), "", &"This account is closed.\x1b[2J\n".repeat(50));
        assert!(text.contains("This account is closed.") && !text.contains('\x1b'), "{text}");
        assert_eq!(text.lines().count(), MAX_LINES + 2);
        let (text, _) = of(None, "", &"x".repeat(70_000));
        assert!(text.contains("no agent of clump") && text.len() < 1000, "{text}");
        let relayed =
            Attempt { machine: "b", starter: Some("a"), code: Some(1), ..Attempt::default() };
        let (text, _) = explain(&Attempt { errors: "Connection refused", ..relayed });
        assert!(text.contains("from machine a"), "{text}");
        let waited = Attempt { machine: "b", waited_s: Some(8.0), ..Attempt::default() };
        let (text, exit) = explain(&waited);
        assert!(text.contains("machine b gave no sign of an agent within 8 s"), "{text}");
        assert_eq!(exit, 125);
    }
}
