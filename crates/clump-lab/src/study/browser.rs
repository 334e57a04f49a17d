//! Pages in a real browser, where there is one.

use crate::study::input::{StudiedProgram, Study};
use crate::study::{fake, tables};
use crate::sweep::{RunEnd, SweepJournal, SweepPlan, SweepRun};
use clump_trace::{PairTraffic, Snapshot};
use std::process::Command;

/// Opens a page in Chromium without a network and compares what it made of it; says loudly if there
/// is none.
pub(crate) fn open(page: &str) {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let works = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    let Some(browser) = names.into_iter().find(works) else {
        clump_os::console::err("SKIPPED: opening the page in a browser: apt-get install chromium");
        return;
    };
    let made = made(browser, page, "light");
    assert_eq!(made.matches("<svg").count(), page.matches("<svg").count());
    assert_eq!(made.matches("<tr>").count(), page.matches("<tr>").count());
    for (width, mode) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        assert_eq!(verdict(browser, page, width, mode), format!("width {width}, {mode}"));
    }
}

/// Opens the page at a width, on light or dark, with a program that looks at it, and returns what
/// that finds.
fn verdict(browser: &str, page: &str, width: u32, mode: &str) -> String {
    let (before, after) = page.split_once("<meta http-equiv").unwrap();
    let after = after.split_once('>').unwrap().1;
    let script = format!("<script>{}</script></body>", include_str!("layout.js"));
    let seen = format!("{before}{}", after.replace("</body>", &script));
    // A window has a least width, a frame in it has not.
    let inner = seen.replace('&', "&amp;").replace('"', "&quot;");
    let style = format!("width:{width}px;height:3000px;border:0");
    let text = format!(
        "<!doctype html><body><iframe style=\"{style}\" srcdoc=\"{inner}\"></iframe></body>"
    );
    let made = made(browser, &text, mode);
    let (_, found) = made.split_once("<pre id=\"verdict\">").unwrap();
    found.split_once("</pre>").unwrap().0.to_owned()
}

/// Returns what the browser made of a page, of which it is not to complain.
fn made(browser: &str, page: &str, mode: &str) -> String {
    let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "page").unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).unwrap();
    let scheme = if mode == "dark" { 0 } else { 1 };
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .arg("--window-size=1400,900")
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .output()
        .unwrap();
    let (made, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}");
    assert!(!said.contains("CONSOLE"), "the browser complains: {said}");
    made.into_owned()
}

#[test]
fn many_crosses_and_numbers_in_cells_can_be_read() {
    let settings = ["o=+5us,scope=net", "o=+50us,scope=net"].map(String::from);
    let program = |at: usize| {
        // Every other one has crosses alone, all at one setting.
        let settings = settings[at % 2..].to_vec();
        let last = settings.len();
        let name = format!("em3d-write-collected {at}");
        let mut journal =
            SweepJournal::new(SweepPlan::new(vec![name.clone()], settings, 1, 3), 0.0);
        for (turn, setting) in (0..=last).enumerate() {
            let seconds = 1.0 + 0.1 * (at * setting) as f64;
            let (took, stopped) = (RunEnd::Took(seconds), RunEnd::DidNotFinish(60.0));
            let end = if setting == last { stopped } else { took };
            journal.add(SweepRun::of((turn, setting), end));
        }
        let mut profile = fake::profile(vec![Snapshot::ZERO; 4]);
        let pairs = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
        let short = |(from, to): (u32, u32)| [10 * u64::from(4 * from + to), 8];
        let pair =
            |(from, to)| PairTraffic { from, to, short: short((from, to)), ..Default::default() };
        profile.matrix = Some(pairs.map(pair).collect());
        let sweeps = vec![journal];
        StudiedProgram { name, profile: Some(profile), sweeps, replays: Vec::new() }
    };
    let study = Study { programs: (0..6).map(program).collect(), ..Study::default() };
    let (report, figures) = tables::report(&study).unwrap();
    let page = crate::page::page(&report, &figures).unwrap();
    assert_eq!(page.matches(": did not finish</title>").count(), 6);
    assert!(page.contains("class=\"on-strong\""), "numbers on dark cells");
    open(&page);
}
