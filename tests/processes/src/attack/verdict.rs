//! Judges the end of a job by what was promised of it.

use super::job::{Job, Promise};
use super::remains::Process;
use super::supervisor::JobEnded;
use std::path::{Path, PathBuf};

/// Exit code of `hinder` when a condition cannot be established.
const IMPOSSIBLE: i32 = 99;
/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;
/// Signals of a defective program: SIGILL, SIGABRT, SIGBUS, SIGSEGV; and SIGPIPE, which ends
/// without a message.
const WRONG_SIGNALS: [i32; 5] = [4, 6, 7, 11, 13];

/// Text that no user should read, and its meaning.
const BETRAYALS: &[(&str, &str)] = &[
    ("panicked at", "a panic"),
    ("RUST_BACKTRACE", "a hint for programmers"),
    ("has overflowed its stack", "a stack overflow"),
    ("memory allocation of", "an allocation that failed"),
    ("\u{1b}", "an escape byte"),
];

/// The verdict on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It ended as promised.
    Kept,
    /// It did not, in these ways.
    Broken(Vec<String>),
    /// Its condition cannot be established here.
    Impossible(String),
}

/// Judges a job by its end.
pub fn judge(job: &Job, ended: &JobEnded) -> Verdict {
    let said = said(ended);
    if ended.code == Some(IMPOSSIBLE) && (said.is_empty() || said.contains("hinder: ")) {
        return Verdict::Impossible(said.trim().to_owned());
    }
    let mut broken = Vec::new();
    match ended.code {
        None => broken.push(format!("had not ended in time: {}", listed(&ended.stuck))),
        Some(code) if !is_promised(job, code) => {
            broken.push(format!("ended with {code}, promised is {}", promised(job)));
        }
        Some(_) => {}
    }
    let terminal = job.output.is_terminal() || job.errors.is_terminal();
    for (text, what) in BETRAYALS.iter().filter(|(text, _)| said.contains(text)) {
        // Output to terminals may hold escape sequences.
        if !(terminal && *text == "\u{1b}") {
            broken.push(format!("shows {what}: `{}`", line_with(&said, text)));
        }
    }
    if ended.code.is_some_and(|code| code != 0) {
        broken.extend(silence(job, ended, &said));
    }
    if !ended.left.is_empty() {
        broken.push(format!("left processes: {}", listed(&ended.left)));
    }
    if !ended.files.is_empty() {
        broken.push(format!("left {:?}", ended.files));
    }
    let stays = |path: &&std::path::PathBuf| ended.code != Some(0) && path.exists();
    for path in job.promise.absent.iter().filter(stays) {
        broken.push(format!("left {}, which looks complete", path.display()));
    }
    broken.extend(traces(job, ended));
    if broken.is_empty() { Verdict::Kept } else { Verdict::Broken(broken) }
}

/// Returns what a job did to files, or did not print, against its promise.
fn traces(job: &Job, ended: &JobEnded) -> Vec<String> {
    let Promise { kept, never, empty, said, .. } = &job.promise;
    let shown = |what: &str, path: &Path| format!("{what} {:?}", path);
    let lost = kept.iter().filter(|path| !path.exists()).map(|path| shown("removed", path));
    let made = never.iter().filter(|path| path.exists()).map(|path| shown("made", path));
    let fills =
        |path: &&PathBuf| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    let full = empty.iter().filter(fills).map(|path| shown("left something in", path));
    let errors = ended.errors.as_deref().unwrap_or_default();
    let untold = said.iter().filter(|word| !errors.contains(word.as_str()));
    let untold = untold.map(|word| format!("says nothing of `{word}`"));
    lost.chain(made).chain(full).chain(untold).collect()
}

/// Returns all output that could be read.
fn said(ended: &JobEnded) -> String {
    let text = |stream: &Option<String>| stream.clone().unwrap_or_default();
    text(&ended.output) + &text(&ended.errors)
}

fn is_promised(job: &Job, code: i32) -> bool {
    let honest =
        (1..=255).contains(&code) && code != PANICKED && !WRONG_SIGNALS.contains(&(code - 128));
    job.promise.codes.contains(&code) || (job.promise.may_refuse && honest)
}

fn promised(job: &Job) -> String {
    let codes: Vec<String> = job.promise.codes.iter().map(ToString::to_string).collect();
    let refusal = job.promise.may_refuse.then(|| "a refusal".to_owned());
    codes.into_iter().chain(refusal).collect::<Vec<_>>().join(" or ")
}

/// Returns the description of a missing message of a failed end.
fn silence(job: &Job, ended: &JobEnded, said: &str) -> Option<String> {
    // Explanations go to standard error; a user does not search for them in the output of ranks.
    let among = job.errors == super::stream::Output::Same && ended.output.is_some();
    if !(ended.errors.is_some() || among) || job.promise.may_be_silent {
        return None;
    }
    let errors = ended.errors.as_deref().unwrap_or(said);
    if errors.trim().is_empty() {
        return Some(format!("ended with {:?} without a word", ended.code));
    }
    let words = &job.promise.words;
    let says = words.is_empty() || words.iter().any(|word| said.contains(word));
    (!says).then(|| format!("says none of {words:?}, but `{}`", last_line(errors)))
}

fn listed(processes: &[Process]) -> String {
    let shown: Vec<String> = processes.iter().map(Process::shown).collect();
    if shown.is_empty() { "none is left".to_owned() } else { shown.join(", ") }
}

fn line_with(text: &str, part: &str) -> String {
    let line = text.lines().find(|line| line.contains(part)).unwrap_or_default();
    line.escape_debug().take(200).collect()
}

fn last_line(text: &str) -> String {
    text.trim_end().lines().last().unwrap_or_default().escape_debug().take(200).collect()
}
