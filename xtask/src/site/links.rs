//! Links of the finished site lead to files, and to places in them, without a network.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The page for a server that finds none.
const NOT_FOUND: &str = "404.html";
/// Folder of pages whose own links the programs check that wrote them.
const REFERENCES: &str = "api";

/// Returns links that lead nowhere, each with its page.
///
/// # Errors
/// Fails if a page cannot be read.
pub(super) fn check(site: &Path) -> Result<Vec<String>> {
    let mut pages = Vec::new();
    collect(site, &mut pages)?;
    let mut places: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    let is_checked =
        |page: &&PathBuf| !page.ends_with(NOT_FOUND) && !page.starts_with(site.join(REFERENCES));
    for page in pages.iter().filter(is_checked) {
        let text = fs::read(page).with_context(|| page.display().to_string())?;
        let text = String::from_utf8_lossy(&text);
        for link in attributes(&text, &["href=\"", "src=\""]) {
            let Some((path, place)) = local(&link) else { continue };
            let folder = page.parent().context("a page is in a folder")?;
            let mut target = if path.is_empty() { page.clone() } else { folder.join(&path) };
            if target.is_dir() {
                target.push("index.html");
            }
            let what = if path.starts_with('/') {
                Some("needs a server")
            } else if !target.is_file() {
                Some("leads to no file")
            } else if place.is_empty() || !has_places(site, &target) {
                None
            } else {
                let known = match places.get(&target) {
                    Some(known) => known,
                    None => places.entry(target.clone()).or_insert(names(&target)?),
                };
                (!known.contains(&place)).then_some("leads to no place of that page")
            };
            let name = page.strip_prefix(site).unwrap_or(page).display();
            wrong.extend(what.map(|what| format!("{name}: ({link}) {what}")));
        }
    }
    wrong.sort();
    wrong.dedup();
    Ok(wrong)
}

/// Returns true for pages whose places are checked.
fn has_places(site: &Path, page: &Path) -> bool {
    let is_page = page.extension().is_some_and(|end| end == "html");
    is_page && !page.starts_with(site.join(REFERENCES))
}

/// Returns path and place of a link within the site.
fn local(link: &str) -> Option<(String, String)> {
    let scheme = link.split(['/', '#', '?']).next().unwrap_or_default();
    if link.starts_with("//") || scheme.contains(':') {
        return None;
    }
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    Some((decoded(path), decoded(place)))
}

/// Replaces `%XX` by the byte.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = (first == b'%').then(|| behind.get(..2)).flatten();
        let byte =
            digits.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the places of a page.
fn names(page: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(page).with_context(|| page.display().to_string())?;
    Ok(attributes(&text, &["id=\"", "name=\""]).collect())
}

/// Returns the values of attributes of a page.
fn attributes<'a>(text: &'a str, starts: &[&'a str]) -> impl Iterator<Item = String> {
    let of = |start: &'a str| text.split(start).skip(1);
    let values =
        starts.iter().flat_map(|start| of(start)).filter_map(|rest| rest.split('"').next());
    values.map(|value| value.replace("&amp;", "&")).collect::<Vec<_>>().into_iter()
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            pages.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let site = std::env::temp_dir().join(format!("clump-site-{}", std::process::id()));
        fs::create_dir_all(&site).unwrap();
        let a = "<a href=\"b.html#two\"> <a href=\"b.html#three\"> <a href=\"c%20d.html\">\
                 <a href=\"https://x\"> <a href=\"/b.html\"> <img src=\"b.html?x&amp;y\">";
        fs::write(site.join("a.html"), a).unwrap();
        fs::write(site.join("b.html"), "<p id=\"two\"><a href=\"#two\">").unwrap();
        let wrong = check(&site).unwrap();
        fs::remove_dir_all(&site).unwrap();
        let expected = [
            "a.html: (/b.html) needs a server",
            "a.html: (b.html#three) leads to no place of that page",
            "a.html: (c%20d.html) leads to no file",
        ];
        assert_eq!(wrong, expected);
    }
}
