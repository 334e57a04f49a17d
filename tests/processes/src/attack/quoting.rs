//! Attacks by words of a user that reach a shell of another machine: the folder of temporary files
//! there, the program's name, its arguments, variables. No word may mean anything but itself.

use super::errand::Errand;
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::{Context, Result};
use clump_test_tier::Sampler;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Words that shells take for something else: each is a name of one file.
const WORDS: &[&[u8]] = &[
    b"keep me",
    b"keep  me ",
    b"it's",
    b"'keep' me",
    b"\"keep\"",
    b"keep;me",
    b"keep*",
    b"keep?e",
    b"[k]eep",
    b"$(touch hit)",
    b"`touch hit`",
    b"$HOME",
    b"keep&me",
    b"keep|me",
    b"keep\nme",
    b"-rf",
    b"--help",
    b"~",
    b"back\\slash",
    b"{keep,me}",
    b"#keep",
    b"!keep",
    b"caf\xe9",
    b"\xff\xfe",
];
/// Names beside such a folder that a shell would make of these words.
const NEIGHBOURS: &[&str] = &["keep", "me", "kept", "keepie", "it", "keep me too"];

/// Stands for a remote shell: runs the command on this machine, with a folder of temporary files.
const REMOTE_SHELL: &str =
    "#!/bin/sh\nshift\ncd /\nexport TMPDIR=\"$ATTACK_TMPDIR\"\nexec sh -c \"$*\"\n";

/// Draws a job.
///
/// # Errors
/// Fails if a folder or a file cannot be made.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let word = OsStr::from_bytes(sampler.one_of(WORDS));
    let (stages, shape, ranks) = (!sampler.once_in(3), sampler.below(4), 1 + sampler.below(2));
    let mut job = Errand::of("run").job(place)?;
    let work = job.folder.work();
    let folders = work.join("temporary");
    let neighbours = neighbours(&folders)?;
    let temporary = folders.join(if shape == 0 { word } else { OsStr::new("plain") });
    make(&temporary)?;
    let shell = remote_shell(&work)?;
    let words = [format!("--hosts=m1:{ranks},m2:{ranks}"), "--ssh".to_owned()];
    job.command.extend(words.map(OsString::from));
    job.command.push(shell.into());
    if stages {
        job.command.push("--stage".into());
    }
    job.variables.push(("ATTACK_TMPDIR".into(), temporary.clone().into()));
    let prog = place.program("prog");
    match shape {
        // The folder of temporary files.
        0 => job.command.extend([prog.into(), "barrier".into(), "2".into()]),
        // The program.
        1 => {
            let link = work.join(word);
            symlink(prog, &link).with_context(|| format!("{}", link.display()))?;
            job.command.extend([link.into(), "barrier".into(), "2".into()]);
        }
        // An argument: of a program that compares it.
        2 => {
            let text = "test \"$1\" = \"$ATTACK_WORD\"";
            job.command.extend(["--env", "ATTACK_WORD", "sh", "-c", text, "sh"].map(Into::into));
            job.command.push(word.into());
            job.variables.push(("ATTACK_WORD".into(), word.into()));
        }
        // A variable.
        _ => {
            let setting = [b"ATTACK_WORD=", word.as_bytes()].concat();
            job.command.extend(["--env".into(), OsString::from_vec(setting)]);
            job.command
                .extend(["sh", "-c", "test \"$ATTACK_WORD\" = \"$1\"", "sh"].map(Into::into));
            job.command.push(word.into());
        }
    }
    job.promise = Promise::exactly(&[0]);
    job.promise.kept = neighbours;
    job.promise.kept.push(temporary.clone());
    job.promise.empty.push(temporary);
    // Wherever a shell may have been when it executed a word.
    job.promise.never.extend([work.join("hit"), folders.join("hit"), PathBuf::from("/hit")]);
    Ok(job)
}

/// Makes files beside the folder that nobody may touch.
fn neighbours(folders: &Path) -> Result<Vec<PathBuf>> {
    make(folders)?;
    let mut all = Vec::new();
    for name in NEIGHBOURS {
        let file = folders.join(name).join("file");
        make(&folders.join(name))?;
        fs::write(&file, "kept\n").with_context(|| file.display().to_string())?;
        all.push(file);
    }
    Ok(all)
}

fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

fn remote_shell(work: &Path) -> Result<PathBuf> {
    let path = work.join("remote-shell");
    fs::write(&path, REMOTE_SHELL).with_context(|| path.display().to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
