//! No test is lost: a target whose manifest turns off its test harness or its documentation tests
//! has none.

use super::finding::Finding;
use super::tree::{Crate, File, Tree};
use anyhow::Result;

/// Reports tests in libraries and programs with `test = false`, and examples in comments of
/// libraries with `doctest = false`. Targets under `[[test]]` are steps of their own.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for item in &tree.crates {
        let sources = || tree.files.iter().filter(|file| is_below(&file.path, &item.dir, "src"));
        let library = item.manifest.get("lib").and_then(toml::Value::as_table);
        if library.is_some_and(|lib| is_off(lib, "test")) {
            findings.extend(sources().filter(|file| !is_program(item, file)).filter_map(a_test));
        }
        if library.is_some_and(|lib| is_off(lib, "doctest")) {
            findings.extend(sources().filter_map(an_example));
        }
        for program in programs(item).filter(|program| is_off(program, "test")) {
            let path = program.get("path").and_then(toml::Value::as_str).unwrap_or("src/main.rs");
            let file = tree.file(&format!("{}/{path}", item.dir));
            findings.extend(file.and_then(a_test));
        }
    }
    Ok(findings)
}

fn programs(item: &Crate) -> impl Iterator<Item = &toml::Table> {
    let list = item.manifest.get("bin").and_then(toml::Value::as_array);
    list.into_iter().flatten().filter_map(toml::Value::as_table)
}

fn is_off(target: &toml::Table, key: &str) -> bool {
    target.get(key).and_then(toml::Value::as_bool) == Some(false)
}

fn is_below(path: &str, dir: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/'));
    rest.and_then(|rest| rest.strip_prefix(folder)).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns true if a file is a program of a crate, or lies in a folder of programs.
fn is_program(item: &Crate, file: &File) -> bool {
    file.path == format!("{}/src/main.rs", item.dir) || is_below(&file.path, &item.dir, "src/bin")
}

fn a_test(file: &File) -> Option<Finding> {
    let line = file.text.lines().position(|line| line.trim() == "#[test]")?;
    let what = "is never run: the target says `test = false` in its manifest; remove that";
    Some(Finding::at(&file.path, line, what))
}

/// Finds an example that the compiler would test: fenced, in no other language.
fn an_example(file: &File) -> Option<Finding> {
    let mut inside = false;
    for (number, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|text| text.trim().strip_prefix("```")) else {
            continue;
        };
        inside = !inside;
        let language = fence.split(',').next().unwrap_or_default();
        let tested = ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language);
        if inside && tested {
            let what =
                "is never tested: the library says `doctest = false` in its manifest; remove that";
            return Some(Finding::at(&file.path, number, what));
        }
    }
    None
}
