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
    let folder = clump_os::scratch::Scratch::new(&std::env::temp_dir(), "page").unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).unwrap();
    let address = format!("file://{}", file.display());
    let options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=360,640"];
    let out = Command::new(browser)
        .args(options)
        .args(["--enable-logging=stderr", "--dump-dom", &address])
        .output()
        .unwrap();
    let (made, said) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{said}");
    assert!(!said.contains("CONSOLE"), "the browser complains: {said}");
    assert_eq!(made.matches("<svg").count(), page.matches("<svg").count());
    assert_eq!(made.matches("<tr>").count(), page.matches("<tr>").count());
}
