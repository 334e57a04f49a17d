//! The step that builds the site, and opens it in a browser without a server.

use super::step::{RUN, Site, StepOutcome, plain};
use crate::{command, host, site};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Pages, and text that a browser shows there. The last is found by the search of the page itself.
const SHOWN: [(&str, &str); 5] = [
    ("index.html", "Which level do I need?"),
    ("api/rust/clump/index.html", "Crate clump"),
    ("python-reference.html", "clump.svm"),
    ("tree/BENCHMARKS.html", "pictures/beside-others.svg"),
    ("index.html?search=doorbell", "search results for 'doorbell'"),
];

/// Builds the site; each link leads somewhere, and a browser shows pages and search.
///
/// # Errors
/// Fails if a program cannot be started.
pub fn opened(site: &Site) -> Result<StepOutcome> {
    let program = match site::mdbook(&site.root)? {
        Ok(program) => program,
        Err(why) => return Ok(StepOutcome::Skipped(why)),
    };
    let out = site.target.join("site");
    let wrong = site::build(&site.root, &out, &program)?;
    if let Some(first) = wrong.first() {
        return Ok(plain(false, &format!("{} links lead nowhere: {first}", wrong.len())));
    }
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = names.iter().find_map(|name| host::program(name)) else {
        println!("SKIPPED opening the site: there is no chromium (apt-get install chromium)");
        return Ok(plain(true, ""));
    };
    for (page, text) in SHOWN {
        if !shown(&browser, &out, page, site)?.contains(text) {
            return Ok(plain(false, &format!("{page} does not show `{text}`")));
        }
    }
    Ok(plain(true, ""))
}

/// Returns a page as a browser has it after its scripts have run.
fn shown(browser: &Path, out: &Path, page: &str, site: &Site) -> Result<String> {
    let profile = site.scratch()?.join("browser");
    let mut open = Command::new(browser);
    open.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000"]);
    open.arg(format!("--user-data-dir={}", profile.display())).arg("--dump-dom");
    open.arg(format!("file://{}/{page}", out.display()));
    let ended = command::run_quiet(&mut open, RUN)?;
    std::fs::remove_dir_all(profile).ok();
    Ok(ended.stdout)
}
