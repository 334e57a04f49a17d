//! Relative links of pages lead to files, folders and headings that exist.

use super::finding::Finding;
use super::tree::Tree;
use anyhow::Result;

/// Reports links of Markdown files without a target. Addresses of other hosts are not followed.
///
/// # Errors
/// Never fails; the type is that of every rule.
pub fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in unfenced(&file.text) {
            for link in links(line).filter(|link| !link.contains("://")) {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let Some(what) = fault(tree, &resolved(&file.path, path), anchor) else { continue };
                findings.push(Finding::at(&file.path, number, format!("({link}) {what}")));
            }
        }
    }
    Ok(findings)
}

/// Returns the defect of a link to `anchor` of the file or folder at `path`.
fn fault(tree: &Tree, path: &str, anchor: &str) -> Option<&'static str> {
    let folder = format!("{path}/");
    let Some(page) = tree.file(path) else {
        let known = tree.files.iter().any(|file| file.path.starts_with(&folder));
        return (!known).then_some("leads to no file of the tree; name one that exists");
    };
    let known = anchor.is_empty()
        || unfenced(&page.text).any(|(_, line)| heading(line) == Some(anchor.to_owned()));
    (!known).then_some("leads to no heading of that page; take the words of one")
}

/// Returns lines outside ``` fences, with their numbers from 0.
fn unfenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Returns destinations of the inline links that end in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

/// Returns the path from the root of a link in `page`; the page itself if the link names no path.
fn resolved(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Returns the anchor of a line that is a heading, as forges make it: lower case, spaces as
/// dashes, no punctuation.
fn heading(line: &str) -> Option<String> {
    let words = line.trim_start_matches('#');
    let words = words.strip_prefix(' ').filter(|_| line.starts_with('#'))?;
    let kept = words.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect())
}
