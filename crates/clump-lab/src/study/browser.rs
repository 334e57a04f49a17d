//! Pages in a real browser, where there is one.

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
