//! Attacks by names that are no UTF-8, or hold characters that no message should show: control
//! characters, line ends.

use super::errand::Errand;
use super::job::{Job, Promise};
use super::place::AttackPlace;
use anyhow::{Context, Result};
use clump_test_tier::Sampler;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Strange names, each of one file.
const NAMES: &[&[u8]] = &[
    b"caf\xe9",
    b"\xff\xfe",
    b"\xf0\x9f\x98",
    b"two\nlines",
    b"\x1b[31mred",
    b"\rstart",
    b"tab\tbed",
    b" ",
    b"-dash",
    b"%s%n",
    "\u{202e}esrever".as_bytes(),
    &[b'x'; 200],
];

/// Draws a job.
///
/// # Errors
/// Fails if the folder cannot be made, or if the file system refuses a name.
pub fn draw(sampler: &mut Sampler, place: &AttackPlace) -> Result<Job> {
    let name = OsStr::from_bytes(sampler.one_of(NAMES));
    let shape = sampler.below(10);
    let mut job = Errand::of("").job(place)?;
    let path = job.folder.work().join(name);
    let mut words = |words: &[&OsStr]| {
        job.command.extend(words.iter().map(OsString::from));
    };
    let run = ["run", "-n", "2"].map(OsStr::new);
    match shape {
        // The program, which succeeds or fails.
        0 | 1 => {
            let prog = place.program("prog");
            std::os::unix::fs::symlink(prog, &path).with_context(|| shown(&path))?;
            let rest = if shape == 0 { ["barrier", "2", ""] } else { ["exit", "7", "1"] };
            let rest: Vec<&OsStr> =
                rest.iter().filter(|word| !word.is_empty()).map(OsStr::new).collect();
            words(&run);
            words(&[path.as_os_str()]);
            words(&rest);
            job.promise = Promise::exactly(&[if shape == 0 { 0 } else { 7 }]);
        }
        // An argument.
        2 => {
            words(&run);
            words(&[OsStr::new("true"), name]);
        }
        // A program, and an input, that do not exist.
        3 => {
            words(&run);
            words(&[path.as_os_str()]);
            job.promise = Promise::exactly(&[127]);
        }
        4 => {
            let out = job.folder.work().join("sorted");
            job.command.extend(sorting(&path, &out));
            job.promise = Promise::exactly(&[1, 2]);
            job.promise.absent.push(out.join("manifest.json"));
        }
        // A folder for output.
        5 => {
            words(&run);
            words(&[OsStr::new("--output"), path.as_os_str()]);
            words(&[place.program("prog").as_os_str(), OsStr::new("flood"), OsStr::new("3")]);
        }
        // Variables: of a program, of clump itself, the folder of temporary files.
        6 => {
            job.variables.push((variable(b"NAME_", name), name.to_owned()));
            words(&run);
            words(&[place.program("prog").as_os_str(), OsStr::new("talk"), OsStr::new("3")]);
        }
        7 => {
            job.variables.push(("CLUMP_LANES".into(), name.to_owned()));
            words(&run);
            words(&[place.program("prog").as_os_str(), OsStr::new("barrier"), OsStr::new("3")]);
            job.promise = Promise::exactly(&[2]);
            job.promise.words.push("CLUMP_LANES".to_owned());
        }
        // Records, and the folder of the sorted ones.
        8 => {
            words(&["app", "gensort", "500"].map(OsStr::new));
            words(&[path.as_os_str()]);
        }
        _ => {
            std::fs::write(&path, []).with_context(|| shown(&path))?;
            let out = job.folder.temporary().join("..").join("out");
            std::fs::create_dir(&out)?;
            job.command.extend(sorting(&path, &out.join(name)));
        }
    }
    Ok(job)
}

fn sorting(input: &Path, output: &Path) -> Vec<OsString> {
    let words = ["app", "sort", "-n", "2", "-i"].map(OsString::from);
    let rest = [input.into(), "-o".into(), output.into()];
    words.into_iter().chain(rest).collect()
}

/// Returns a name of a variable, which may hold anything but `=`.
fn variable(start: &[u8], name: &OsStr) -> OsString {
    OsString::from_vec([start, name.as_bytes()].concat())
}

fn shown(path: &PathBuf) -> String {
    format!("{path:?}")
}
