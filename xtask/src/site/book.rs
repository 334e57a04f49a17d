//! The source of the book: pages of `docs/` in the order of its first page, with links that lead
//! within the site. Files of the tree that pages name become pages, too.

use super::pictures;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The first page, whose last table has all pages by subject.
const FIRST: &str = "docs/README.md";
const ALL_PAGES: &str = "# All pages";
/// Pages of the tree's root.
const ROOT_PAGES: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md", "CHANGELOG.md"];
/// Ends of names of files that a browser shows as they are.
const SHOWN: [&str; 4] = [".png", ".svg", ".html", ".json"];

/// Marks of a table of results, before its name and behind the table.
const TABLE: &str = "<!-- bench: ";
const TABLE_END: &str = "<!-- /bench -->";

/// Writes all pages of a tree into a folder. Tables in `pictures` have theirs below them.
///
/// # Errors
/// Fails if a page cannot be read or written, or if a link names nothing.
pub(super) fn write(
    (root, to): (&Path, &Path),
    has_c: bool,
    python: Option<&str>,
    pictures: &BTreeSet<String>,
) -> Result<()> {
    let mut book = Book { root, to, pictures, files: BTreeSet::new() };
    let first = text(root, FIRST)?;
    let mut summary = format!("# Summary\n\n[{}](index.md)\n", title(&first));
    book.page(FIRST)?;
    let (_, table) = first.split_once(ALL_PAGES).context("docs/README.md has no table of pages")?;
    for (subject, links) in rows(table) {
        let _ = write!(summary, "\n# {}{}\n\n", subject[..1].to_uppercase(), &subject[1..]);
        for link in links {
            book.chapter(link, &mut summary)?;
        }
    }
    summary.push_str("\n# Reference\n\n- [Rust, C and C++](reference.md)\n");
    book.save("reference.md", &references(has_c))?;
    if let Some(python) = python {
        summary.push_str("- [Python](python-reference.md)\n");
        book.save("python-reference.md", python)?;
    }
    summary.push_str("\n# The tree\n\n");
    for page in ROOT_PAGES {
        let heading = title(&text(root, page)?);
        let _ = writeln!(summary, "- [{heading}]({})", book.place(page)?);
        book.page(page)?;
    }
    book.save("SUMMARY.md", &summary)?;
    book.sources()
}

/// The page that leads to the references by other programs.
fn references(has_c: bool) -> String {
    let c = if has_c { "[functions and types](api/c/files.html)" } else { "built without Doxygen" };
    format!(
        "# Reference\n\n| language | pages |\n|---|---|\n| Rust | [`clump`](api/rust/clump/index.html), \
         and the crates whose items it passes on |\n| C, C++ | {c} |\n"
    )
}

/// Returns subjects of a table, and the targets of links of each.
fn rows(table: &str) -> Vec<(&str, Vec<&str>)> {
    let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let linked = cells.filter(|(_, links)| links.contains("]("));
    linked.map(|(subject, links)| (subject, targets(links).collect())).collect()
}

/// Returns the targets of links of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the first heading of a page.
fn title(page: &str) -> String {
    let heading = page.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("clump").replace(['[', ']'], "")
}

fn text(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

/// The source while it is written.
struct Book<'a> {
    root: &'a Path,
    to: &'a Path,
    /// Tables of results that have a picture.
    pictures: &'a BTreeSet<String>,
    /// Files and folders of the tree that pages lead to.
    files: BTreeSet<String>,
}

impl Book<'_> {
    fn save(&self, name: &str, text: &str) -> Result<()> {
        let path = self.to.join(name);
        fs::create_dir_all(path.parent().context("a page is in a folder")?)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// Adds a page of `docs/`, or a folder of them with a page that lists them.
    fn chapter(&mut self, link: &str, summary: &mut String) -> Result<()> {
        let path = format!("docs/{link}");
        if link.ends_with(".md") {
            let _ = writeln!(summary, "- [{}]({link})", title(&text(self.root, &path)?));
            return self.page(&path);
        }
        let mut list = format!("# {}{}\n\n", link[..1].to_uppercase(), &link[1..]);
        let _ = writeln!(summary, "- [{}]({link}/index.md)", title(&list));
        for name in names(&self.root.join(&path))? {
            if let Some(page) = name.ends_with(".md").then(|| format!("{path}/{name}")) {
                let heading = title(&text(self.root, &page)?);
                let _ = writeln!(summary, "  - [{heading}]({link}/{name})");
                let _ = writeln!(list, "- [{heading}]({name})");
                self.page(&page)?;
            }
        }
        self.save(&format!("{link}/index.md"), &list)
    }

    /// Writes one page of the tree, with links that lead within the site.
    fn page(&mut self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        let (mut page, mut is_code, mut table) = (String::new(), false, None);
        for line in text(self.root, path)?.lines() {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            if is_code || is_fence || !line.contains("](") {
                page.push_str(line);
            } else {
                page.push_str(&self.relinked(line, path, &place)?);
            }
            page.push('\n');
            if let Some(name) = line.strip_prefix(TABLE) {
                table = name.strip_suffix(" -->").map(str::to_owned);
            } else if let Some(name) = table.take_if(|_| line == TABLE_END)
                && self.pictures.contains(&name)
            {
                page.push_str(&pictures::shown(&name, &relative(&place, pictures::FOLDER)));
            }
        }
        self.save(&place, &page)
    }

    fn relinked(&mut self, line: &str, path: &str, place: &str) -> Result<String> {
        let mut parts = line.split("](");
        let mut done = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (link, rest) = part.split_once(')').unwrap_or((part, ""));
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let is_ours = !link.contains("://") && !target.is_empty();
            let target = match is_ours {
                true => relative(place, &self.place(&resolved(path, target))?),
                false => target.to_owned(),
            };
            let mark = if anchor.is_empty() { "" } else { "#" };
            let _ = write!(done, "]({target}{mark}{anchor}){rest}");
        }
        Ok(done)
    }

    /// Returns the place of a path of the tree on the site; a source is noted, to become a page.
    fn place(&mut self, path: &str) -> Result<String> {
        if path == FIRST {
            return Ok("index.md".into());
        }
        let is_folder = self.root.join(path).is_dir();
        if let Some(within) = path.strip_prefix("docs/") {
            if path.ends_with(".md") {
                return Ok(within.into());
            }
            let has_pages =
                is_folder && names(&self.root.join(path))?.iter().any(|name| name.ends_with(".md"));
            if has_pages && !within.contains('/') {
                return Ok(format!("{within}/index.md"));
            }
        }
        if path == "README.md" {
            // mdBook would make it the first page of its folder.
            return Ok("tree/overview.md".into());
        }
        if ROOT_PAGES.contains(&path) {
            return Ok(format!("tree/{path}"));
        }
        self.files.insert(path.to_owned());
        Ok(match path {
            _ if is_folder => format!("tree/{path}/index.html"),
            _ if SHOWN.iter().any(|end| path.ends_with(end)) => format!("tree/{path}"),
            _ => format!("tree/{path}.html"),
        })
    }

    /// Writes the files and folders that pages lead to.
    fn sources(&mut self) -> Result<()> {
        let mut done = BTreeSet::new();
        while let Some(path) = self.files.difference(&done).next().cloned() {
            let (from, place) = (self.root.join(&path), self.place(&path)?);
            done.insert(path.clone());
            if from.is_dir() {
                let mut list = String::new();
                for name in names(&from)? {
                    let one = self.place(&format!("{path}/{name}"))?;
                    let link = relative(&place, &one);
                    let page = link.strip_suffix(".md").map(|page| format!("{page}.html"));
                    let link = page.unwrap_or(link);
                    let _ = writeln!(list, "<a href=\"{link}\">{name}</a>");
                }
                self.save(&place, &bare(&path, &list))?;
            } else if place.ends_with(&path) {
                fs::create_dir_all(self.to.join(&place).parent().context("in a folder")?)?;
                fs::copy(&from, self.to.join(&place)).with_context(|| path.clone())?;
            } else {
                let escaped = text(self.root, &path)?.replace('&', "&amp;").replace('<', "&lt;");
                self.save(&place, &bare(&path, &escaped))?;
            }
        }
        Ok(())
    }
}

/// Returns a page that shows text as it is.
fn bare(name: &str, body: &str) -> String {
    format!("<!doctype html><meta charset=\"utf-8\"><title>{name}</title>\n<pre>{body}</pre>\n")
}

/// Returns the names in a folder, sorted, without build outputs.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != "target" && name != "__pycache__" && !name.starts_with('.'));
    names.sort();
    Ok(names)
}

/// Returns the path from the tree's root of a link in `page`.
fn resolved(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Returns the link from a page to another place, both from the site's root.
fn relative(page: &str, to: &str) -> String {
    let up = "../".repeat(page.matches('/').count());
    format!("{up}{to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_results_have_their_pictures_below_them() {
        let root = std::env::temp_dir().join(format!("clump-book-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/benchmarks")).unwrap();
        let page = "# P\n\n<!-- bench: drawn -->\n| a |\n<!-- /bench -->\n\n\
                    <!-- bench: not-drawn -->\n| b |\n<!-- /bench -->\n";
        fs::write(root.join("docs/benchmarks/p.md"), page).unwrap();
        let pictures = BTreeSet::from(["drawn".to_owned()]);
        let (to, files) = (root.join("book"), BTreeSet::new());
        let mut book = Book { root: &root, to: &to, pictures: &pictures, files };
        book.page("docs/benchmarks/p.md").unwrap();
        let written = fs::read_to_string(to.join("benchmarks/p.md")).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let line = "](../pictures/drawn.svg)";
        let (table, rest) = written.split_once(line).unwrap();
        assert!(table.contains("| a |\n<!-- /bench -->\n\n![") && !table.contains("| b |"));
        assert!(!rest.contains("]("), "{rest}");
    }

    #[test]
    fn tables_and_links_are_read() {
        let table =
            "\n| subject | pages |\n|---|---|\n| levels | [a.md](a.md), [deploy](deploy) |\n";
        assert_eq!(rows(table), [("levels", vec!["a.md", "deploy"])]);
        assert_eq!(resolved("docs/adr/1.md", "../../crates/x.rs"), "crates/x.rs");
        assert_eq!(relative("adr/1.md", "tree/x.html"), "../tree/x.html");
        assert_eq!(title("text\n# A page\n"), "A page");
    }
}
