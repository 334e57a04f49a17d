//! Attacks by inputs and outputs of the applications that are no ordinary files.

use super::errand::Errand;
use super::event::{Event, What, When};
use super::job::{Job, Promise};
use super::place::{AttackPlace, Folder};
use super::stream::Input;
use anyhow::{Context, Result};
use clump_test_tier::Sampler;
use rustix::fs::{CWD, FileType, Mode};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a record.
const RECORD: usize = 100;
/// Records of an ordinary input.
const RECORDS: usize = 300;
/// A user without processes.
const USER: &str = "100099";

/// The kind of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputKind {
    Regular,
    Empty,
    Truncated,
    Missing,
    Folder,
    Fifo,
    Socket,
    Link,
    Loop,
    Dangling,
    Unreadable,
    Null,
    Zero,
    Full,
    Proc,
    Standard,
    Twice,
}

const KINDS: &[InputKind] = &[
    InputKind::Regular,
    InputKind::Empty,
    InputKind::Truncated,
    InputKind::Missing,
    InputKind::Folder,
    InputKind::Fifo,
    InputKind::Socket,
    InputKind::Link,
    InputKind::Loop,
    InputKind::Dangling,
    InputKind::Unreadable,
    InputKind::Null,
    InputKind::Zero,
    InputKind::Full,
    InputKind::Proc,
    InputKind::Standard,
    InputKind::Twice,
];

/// Draws a job.
///
/// # Errors
/// Fails if the folder or a file cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    if sampler.once_in(4) {
        return output(sampler, place);
    }
    let kind = sampler.one_of(KINDS);
    let ranks = 1 + sampler.below(3);
    let mut job = Errand::of("").job(place)?;
    let path = make(kind, &job.folder)?;
    let input = path.display().to_string();
    let verb = sampler.one_of(&["sort", "sort", "valsort"]);
    let mut words = match verb {
        "sort" => format!("app sort -n {ranks} -o sorted -i {input}"),
        _ => format!("app valsort {input}"),
    };
    if kind == InputKind::Twice && verb == "sort" {
        words += &format!(" {input}");
    }
    job.command.extend(words.split_whitespace().map(Into::into));
    let good = matches!(kind, InputKind::Regular | InputKind::Link);
    job.promise = match kind {
        _ if good => Promise::exactly(&[0]),
        // An empty input is sorted; the same file twice is two inputs.
        InputKind::Empty | InputKind::Null | InputKind::Twice => Promise::or_refusal(0),
        // An endless input is read until the job is told to end.
        InputKind::Zero | InputKind::Full if verb == "valsort" => {
            let when = When::After(Duration::from_secs(1));
            job.event = Some(Event { when, what: What::Signal("TERM") });
            Promise { may_be_silent: true, ..Promise::exactly(&[1, 2, 125, 143, -15]) }
        }
        // The FIFO has no writer: the job waits until it is told to end.
        InputKind::Fifo => {
            let when = When::After(Duration::from_secs(1));
            job.event = Some(Event { when, what: What::Signal("TERM") });
            Promise { may_be_silent: verb == "valsort", ..Promise::exactly(&[1, 2, 125, 143, -15]) }
        }
        InputKind::Standard => {
            job.input = Input::Pipe;
            Promise::exactly(&[1, 2, 125])
        }
        InputKind::Unreadable => {
            if rustix::process::geteuid().is_root() {
                job.condition("--user", USER);
            }
            Promise::exactly(&[1, 2, 125])
        }
        _ => Promise::exactly(&[1, 2, 125]),
    };
    // A checker's verdict is its output.
    job.promise.may_be_silent |= verb == "valsort";
    if verb == "sort" {
        job.promise.absent.push(job.folder.work().join("sorted/manifest.json"));
    }
    Ok(job)
}

/// Makes an input.
fn make(kind: InputKind, folder: &Folder) -> Result<PathBuf> {
    let (path, other) = (folder.work().join("input"), folder.work().join("other"));
    let records: Vec<u8> =
        (0..RECORDS).flat_map(|n| format!("{n:010} {:088}\n", n * 7).into_bytes()).collect();
    debug_assert_eq!(records.len(), RECORD * RECORDS, "records have their length");
    match kind {
        InputKind::Regular | InputKind::Twice => fs::write(&path, &records)?,
        InputKind::Empty => fs::write(&path, "")?,
        InputKind::Truncated => fs::write(&path, &records[..records.len() - 1])?,
        InputKind::Missing => {}
        InputKind::Folder => fs::create_dir(&path)?,
        InputKind::Fifo => {
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0)?;
        }
        // The name stays when the listener is closed.
        InputKind::Socket => drop(UnixListener::bind(short(&path)?)?),
        InputKind::Link => {
            fs::write(&other, &records)?;
            symlink(&other, &path)?;
        }
        InputKind::Loop => {
            symlink(&other, &path)?;
            symlink(&path, &other)?;
        }
        InputKind::Dangling => symlink(&other, &path)?,
        InputKind::Unreadable => {
            fs::write(&path, &records)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000))?;
        }
        InputKind::Null => return Ok("/dev/null".into()),
        InputKind::Zero => return Ok("/dev/zero".into()),
        InputKind::Full => return Ok("/dev/full".into()),
        InputKind::Proc => return Ok("/proc/self/status".into()),
        InputKind::Standard => return Ok("/dev/stdin".into()),
    }
    Ok(path)
}

/// Returns the path relative to the current folder, so that it fits a socket's name (unix(7): 108
/// bytes).
fn short(path: &std::path::Path) -> Result<PathBuf> {
    let here = std::env::current_dir()?;
    Ok(path.strip_prefix(&here).unwrap_or(path).to_owned())
}

/// Draws an output where none can be, or should be.
fn output(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let mut job = Errand::of("").job(place)?;
    let input = make(InputKind::Regular, &job.folder)?;
    let work = job.folder.work();
    let taken = work.join("taken");
    fs::create_dir(&taken)?;
    fs::write(taken.join("precious"), "not to be lost").context("making a file")?;
    let places = [
        taken.clone(),
        input.clone(),
        input.join("below"),
        "/dev/null".into(),
        "/proc/self/sorted".into(),
        "/sys/sorted".into(),
        "/dev/full".into(),
    ];
    let at = sampler.below(places.len() as u64);
    let output = places[usize::try_from(at).unwrap_or(0)].display().to_string();
    let input = input.display().to_string();
    let makes = sampler.once_in(3);
    let words = if makes {
        format!("app gensort 500 {output}")
    } else {
        format!("app sort -n 2 -i {input} -o {output}")
    };
    job.command.extend(words.split_whitespace().map(Into::into));
    job.promise = Promise::exactly(&[1, 2, 125]);
    if makes && output.starts_with("/dev/null") {
        // As with every program: discarded output counts as written.
        job.promise.codes.push(0);
    }
    if !makes && at == 0 {
        // A folder with files of others is an output folder like any; those files stay.
        job.promise.codes.push(0);
    }
    Ok(job)
}
