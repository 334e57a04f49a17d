//! No circle of files inside a crate: files that use each other have to be read, and changed,
//! together.
//!
//! A file uses another if its code names a path into that module. A file that declares a module and
//! only passes its items on (`pub use`, `pub(crate) use`) does not use it. Test code does not
//! count.

use super::finding::Finding;
use super::ratchet::{self, Section, Sizes};
use super::tree::{Tree, is_test_file};
use crate::source::Source;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Modules by path (`a::b`; the root is empty), each with the modules that it uses.
pub(super) type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns what this rule counts: files that are part of a circle, by crate.
pub fn sections(tree: &Tree) -> Vec<Section> {
    let crates = tree.crates.iter().map(|item| item.dir.clone());
    let now: Sizes = crates
        .map(|dir| {
            let files = circles(&graph(tree, &dir)).iter().map(Vec::len).sum();
            (dir, files)
        })
        .collect();
    vec![Section { name: "circles", limit: 0, now }]
}

/// Reports crates with more files in circles than the ratchet allows.
///
/// # Errors
/// Fails if the ratchet cannot be read.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let allowed = ratchet::read(tree)?;
    let mut findings = Vec::new();
    for section in sections(tree) {
        findings.extend(ratchet::slack(&section, &allowed));
        for (dir, files, was) in ratchet::exceeded(&section, &allowed) {
            let found = circles(&graph(tree, dir));
            let named: Vec<String> = found.iter().map(|circle| circle.join(", ")).collect();
            let what = format!(
                "{files} files in circles ({} allowed): {}; move what they share to a file below them",
                was.unwrap_or(0),
                named.join(" | ")
            );
            findings.push(Finding::of(dir, what));
        }
    }
    Ok(findings)
}

/// Returns the modules of the crate in `dir`, and which uses which.
fn graph(tree: &Tree, dir: &str) -> Graph {
    let below = format!("{dir}/src/");
    let files: Vec<(String, &Source)> = tree
        .rust()
        .filter_map(|(file, source)| {
            let path = file.path.strip_prefix(&below)?;
            let skip = is_test_file(&file.path) || path.starts_with("bin/");
            (!skip).then(|| (module_of(path), source))
        })
        .collect();
    let modules: BTreeSet<String> = files.iter().map(|(module, _)| module.clone()).collect();
    let mut graph = Graph::new();
    for (module, source) in &files {
        let uses = uses_of(module, source, &modules);
        graph.entry(module.clone()).or_default().extend(uses);
    }
    graph
}

/// Returns the path of the module that a file below `src/` is.
fn module_of(path: &str) -> String {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    match stem {
        "lib" | "main" | "mod" => String::new(),
        stem => stem.replace('/', "::"),
    }
}

/// Returns the modules that the code of `module` names.
fn uses_of(module: &str, source: &Source, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let tests = source.test_lines();
    let lines = source.lines.iter().zip(&tests).filter(|(_, test)| !**test);
    let code: String = lines.map(|(line, _)| format!("{}\n", line.code)).collect();
    let mut used = BTreeSet::new();
    for statement in code.split_inclusive([';', '{', '}']) {
        let text = without_attributes(statement);
        // The paths of declarations are known only once their groups are taken apart.
        let declared =
            text.starts_with("use ") || (text.starts_with("pub") && text.contains("use "));
        if !declared {
            used.extend(named_paths(text).iter().filter_map(|path| resolve(module, path, modules)));
        }
    }
    for (exported, path) in use_declarations(&code) {
        let target = resolve(module, &path, modules);
        let child = target.as_deref().is_some_and(|target| is_child(target, module));
        if !(exported && child) {
            used.extend(target);
        }
    }
    used.remove(module);
    used
}

/// Returns a statement without what stands before it in brackets.
fn without_attributes(statement: &str) -> &str {
    let mut text = statement.trim();
    while text.starts_with("#[")
        && let Some((_, rest)) = text.split_once("]\n")
    {
        text = rest.trim_start();
    }
    text
}

/// Returns true if `target` is declared by `module`.
fn is_child(target: &str, module: &str) -> bool {
    let parent = target.rsplit_once("::").map_or("", |(parent, _)| parent);
    parent == module
}

/// Returns every path in `text`.
fn named_paths(text: &str) -> Vec<String> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !is_path(c)).filter(|word| word.contains("::"));
    words.map(|word| word.trim_end_matches(':').to_owned()).collect()
}

/// Returns the paths of all `use` declarations, and which of them are passed on.
fn use_declarations(code: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let words = line.trim_start();
        let (exported, rest) = match words.split_once("use ") {
            Some(("", rest)) => (false, rest),
            Some((before, rest)) if before.starts_with("pub") && !before.contains("fn") => {
                (true, rest)
            }
            _ => continue,
        };
        let mut text = rest.to_owned();
        while !text.contains(';')
            && let Some(more) = lines.next()
        {
            text.push_str(more.trim());
        }
        let path = text.split(';').next().unwrap_or_default();
        expand("", path, &mut |path| found.push((exported, path)));
    }
    found
}

/// Calls `visit` with each path of a `use` tree.
fn expand(prefix: &str, tree: &str, visit: &mut impl FnMut(String)) {
    let tree = tree.trim();
    match tree.split_once('{') {
        None => visit(format!("{prefix}{}", tree.split(" as ").next().unwrap_or(tree).trim())),
        Some((head, group)) => {
            let group = group.trim_end().trim_end_matches('}');
            let prefix = format!("{prefix}{}", head.trim());
            for part in split_group(group) {
                expand(&prefix, part, visit);
            }
        }
    }
}

/// Splits a group at its commas, not at those of groups inside.
fn split_group(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&group[start..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// Returns the module that `path`, named in `module`, leads into.
fn resolve(module: &str, path: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut at: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut rooted = true;
    match parts.peek().copied()? {
        "crate" => {
            at.clear();
            parts.next();
        }
        "self" => drop(parts.next()),
        "super" => {
            while parts.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        _ => rooted = false,
    }
    let mut reached = at.join("::");
    let mut found = rooted;
    for part in parts {
        let next = if reached.is_empty() { part.to_owned() } else { format!("{reached}::{part}") };
        if !modules.contains(&next) {
            break;
        }
        (reached, found) = (next, true);
    }
    found.then_some(reached)
}

/// Returns the circles of a graph: modules that reach each other, as file names.
pub(super) fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reached_from(graph, module))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (module, reached) in &reach {
        if !reached.contains(module) || seen.contains(module) {
            continue;
        }
        let members = reached.iter().filter(|other| reach[*other].contains(module));
        let members: Vec<&str> = members.copied().collect();
        seen.extend(members.iter().copied());
        found.push(members.iter().map(|member| display(member)).collect());
    }
    found
}

fn reached_from<'a>(graph: &'a Graph, module: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![module];
    while let Some(at) = open.pop() {
        for next in graph.get(at).into_iter().flatten() {
            if graph.contains_key(next) && reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

fn display(module: &str) -> String {
    if module.is_empty() { "crate root".to_owned() } else { module.to_owned() }
}
