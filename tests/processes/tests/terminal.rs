//! The view of a running job in a terminal, which tmux shows as its user sees it.
#![allow(clippy::unwrap_used, reason = "helpers of a test may give up")]

use clump_process_tests::{Folder, Job, program, signals, until};
use std::process::Command;

/// A terminal of so many columns and rows; ended with this value.
struct Terminal(Folder);

impl Terminal {
    /// Opens one in which `line` runs; says so where there is no tmux.
    fn open((columns, rows): (u32, u32), line: &str) -> Option<Self> {
        let terminal = Self(Folder::inside(std::path::Path::new("/tmp")));
        let (x, y) = (columns.to_string(), rows.to_string());
        let words = ["new-session", "-d", "-x", x.as_str(), "-y", &y, line];
        match terminal.command(&words).output() {
            Ok(done) if done.status.success() => Some(terminal),
            Ok(done) => panic!("tmux: {}", String::from_utf8_lossy(&done.stderr)),
            Err(why) => {
                println!("SKIPPED: no tmux here ({why}); Debian's package tmux has it");
                None
            }
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.0.path().join("s")).args(["-f", "/dev/null"]).args(words);
        command
    }

    fn tell(&self, words: &[&str]) {
        let done = self.command(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Returns the lines that it shows.
    fn lines(&self) -> Vec<String> {
        let shown = self.command(&["capture-pane", "-p"]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap().lines().map(Into::into).collect()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.command(&["kill-server"]).output();
    }
}

#[test]
fn a_view_fits_the_terminal_and_ends_by_ctrl_c() {
    let folder = Folder::new();
    let job = Job::of("-n 6", &format!("talk 0 --ready {}", folder.path().display())).start();
    job.await_ready(folder.path(), 0..6);
    let clump = program("clump-under-test").display().to_string();
    let line = format!(
        "trap : INT; {clump} top --pid {} --interval 0.02; echo ended; cat",
        job.launcher()
    );
    let Some(terminal) = Terminal::open((80, 24), &line) else { return };
    let ranks = |lines: &[String]| lines.iter().filter(|line| line.contains("  0.0  ")).count();
    let whole = until("a view of all ranks", || {
        let lines = terminal.lines();
        let is_whole = lines.iter().any(|line| line.contains("sent/s")) && ranks(&lines) >= 6;
        is_whole.then_some(lines)
    });
    assert!(whole[0].starts_with("job ") && whole[0].ends_with(": 6 ranks"), "{whole:?}");
    // A line that is too long would go on in the next.
    let is_of_a_rank = |line: &String| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    assert!(whole[3..9].iter().all(is_of_a_rank), "{whole:?}");
    terminal.tell(&["resize-window", "-x", "50", "-y", "7"]);
    until("a view of the lesser size", || {
        let lines = terminal.lines();
        let fits = lines.len() == 7
            && lines[0].starts_with("job ")
            && lines[3..6].iter().all(is_of_a_rank)
            && lines[6].contains("more ranks");
        fits.then_some(())
    });
    terminal.tell(&["send-keys", "C-c"]);
    // The terminal shows the key before.
    let has_ended = |lines: &[String]| lines.iter().any(|line| line.ends_with("ended"));
    until("the end of the view", || has_ended(&terminal.lines()).then_some(()));
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}

#[test]
fn a_key_shows_what_ranks_wait_for() {
    let folder = Folder::new();
    let args = format!("forever 0 --together --ready {}", folder.path().display());
    let job = Job::of("-n 2", &args).start();
    job.await_ready(folder.path(), 0..1);
    let clump = program("clump-under-test").display().to_string();
    let line = format!("{clump} top --pid {} --interval 0.05; echo ended; cat", job.launcher());
    let Some(terminal) = Terminal::open((100, 30), &line) else { return };
    let shows = |text: &str| {
        until(text, || terminal.lines().iter().any(|line| line.contains(text)).then_some(()));
    };
    shows("sent/s");
    terminal.tell(&["send-keys", "w"]);
    shows("rank 0: computing (in no blocking call)");
    shows("waited for:");
    shows("threads:");
    terminal.tell(&["send-keys", "w"]);
    shows("sent/s");
    shows("s: sort by the next column");
    terminal.tell(&["send-keys", "s"]);
    shows("SENT/S");
    terminal.tell(&["send-keys", "q"]);
    shows("ended");
    // The terminal shows keys again.
    terminal.tell(&["send-keys", "visible"]);
    shows("visible");
    job.signal(job.launcher(), signals::INTERRUPT);
    job.finish().expect(130, &[]);
}

#[test]
fn one_of_two_jobs_is_chosen_by_its_number() {
    let folders = [Folder::new(), Folder::new()];
    // Jobs of other tests may be in the list, too.
    let jobs = [3, 5].map(|ranks| {
        let folder = &folders[usize::from(ranks == 5)];
        let args = format!("forever 0 --ready {}", folder.path().display());
        let job = Job::of(&format!("-n {ranks}"), &args).start();
        job.await_ready(folder.path(), 0..1);
        job
    });
    let clump = program("clump-under-test").display().to_string();
    let line = format!("{clump} top --interval 0.05; echo ended; cat");
    let Some(terminal) = Terminal::open((250, 30), &line) else { return };
    let second = folders[1].path().display().to_string();
    let number = until("the list of jobs", || {
        let lines = terminal.lines();
        let is_whole = lines.iter().any(|line| line.starts_with("number of the job:"));
        let of_second = lines.iter().find(|line| line.contains(&second)).filter(|_| is_whole)?;
        Some(of_second.split_whitespace().next()?.to_owned())
    });
    terminal.tell(&["send-keys", &number, "Enter"]);
    until("the chosen job", || {
        let lines = terminal.lines();
        let title = lines.iter().find(|line| line.starts_with("job "))?;
        title.ends_with(": 5 ranks").then_some(())
    });
    terminal.tell(&["send-keys", "q"]);
    until("the end", || terminal.lines().iter().any(|line| line.ends_with("ended")).then_some(()));
    for job in jobs {
        job.signal(job.launcher(), signals::INTERRUPT);
        job.finish().expect(130, &[]);
    }
}

#[test]
fn what_is_typed_reaches_rank_0_of_a_job_in_the_foreground() {
    let clump = program("clump-under-test").display().to_string();
    let script = "[ $CLUMP_RANK = 1 ] || { read x; echo got $x; read x || echo no more; }";
    for options in ["-n 2", "-n 2 --nodes 2"] {
        let line = format!("{clump} run {options} sh -c '{script}'; echo ended; cat");
        let Some(terminal) = Terminal::open((80, 24), &line) else { return };
        terminal.tell(&["send-keys", "a line", "Enter", "C-d"]);
        let shows = |what: &str| {
            until(what, || terminal.lines().iter().any(|line| line == what).then_some(()));
        };
        ["got a line", "no more", "ended"].into_iter().for_each(shows);
    }
    // One in the background leaves the terminal to others, and is not stopped.
    let line = format!("bash -c 'set -m; {clump} run -n 2 true & wait; echo ended; cat'");
    let Some(terminal) = Terminal::open((80, 24), &line) else { return };
    until("the end", || terminal.lines().iter().any(|line| line == "ended").then_some(()));
}
