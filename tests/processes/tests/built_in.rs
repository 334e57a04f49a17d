//! Built-in commands of the `clump` program, as a user calls them.

use clump_process_tests::far::FakeShell;
use clump_process_tests::{Folder, Job, signals, until};

fn path(folder: &Folder, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn make_sort_and_check() {
    let folder = Folder::new();
    let (records, sorted) = (path(&folder, "records"), path(&folder, "sorted"));
    Job::command(&format!("app gensort 50000 {records}")).finish().expect_clean();
    let sort = Job::command(&format!("app sort -n 3 -i {records} -o {sorted}")).finish();
    sort.expect_clean();
    let check = Job::command(&format!("app valsort {sorted} --input {records}")).finish();
    check.expect_clean();
    assert!(check.out.contains("SUCCESS"), "{}", check.out);
}

#[test]
fn progress_is_drawn_on_a_terminal() {
    let folder = Folder::new();
    let (records, sorted) = (path(&folder, "records"), path(&folder, "sorted"));
    Job::command(&format!("app gensort 100000 {records}")).finish().expect_clean();
    let clump = clump_process_tests::program("clump-under-test");
    let line = format!("{} app sort -n 3 -i {records} -o {sorted}", clump.display());
    // script(1) gives it a terminal, whose kind is in a variable that is missing in automated
    // runs.
    let shown = Job::any("script").with_args(&["-qec", &line, "/dev/null"]);
    let shown = shown.with(|command| {
        command.env("TERM", "xterm");
    });
    let shown = shown.finish();
    shown.expect_clean();
    assert!(shown.out.contains("[2K"), "a bar that is drawn again: {}", shown.out);
    assert!(shown.out.contains("sorted 100000 records"), "{}", shown.out);
}

#[test]
fn a_missing_input_is_said_once() {
    let folder = Folder::new();
    let (records, sorted) = (path(&folder, "missing"), path(&folder, "sorted"));
    let sort = Job::command(&format!("app sort -n 3 -i {records} -o {sorted}")).finish();
    assert_eq!(sort.code, 2, "{}", sort.err);
    assert_eq!(sort.err.matches("missing").count(), 1, "{}", sort.err);
    assert!(!sort.err.contains("exit code"), "clump has nothing to add: {}", sort.err);
}

#[test]
fn a_demonstration_makes_no_folder_of_a_name_that_is_wrong() {
    let folder = Folder::new();
    let wrong = path(&folder, "mistyped");
    let demo = Job::command(&format!("demo --records 1000 --folder {wrong}")).finish();
    demo.expect(2, &["there is no folder", "mistyped"]);
    assert!(!std::path::Path::new(&wrong).exists());
}

#[test]
fn an_interrupted_demonstration_leaves_nothing() {
    let folder = Folder::new();
    let demo = Job::command(&format!("demo --records 300000 --folder {}", folder.path().display()))
        .start();
    let inside = || std::fs::read_dir(folder.path()).unwrap().count();
    until("the temporary folder", || (inside() == 1).then_some(()));
    demo.signal(demo.launcher(), signals::INTERRUPT);
    let ended = demo.finish();
    assert_eq!(ended.code, 130, "{}", ended.err);
    assert_eq!(inside(), 0);
}

#[test]
fn a_demonstration_ends_with_five_figures_or_none() {
    let folder = Folder::new();
    let words = format!("demo --records 1000 -n 2 --folder {}", folder.path().display());
    let ended = Job::command(&words).finish();
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    let (_, measured) = ended.out.split_once("== 4. ").unwrap();
    let (measured, _) = measured.split_once("what to try next").unwrap();
    let lines: Vec<&str> = measured.lines().skip(1).collect();
    let lines = lines
        .strip_suffix(&["  (this program was built without optimization: they say nothing)"])
        .unwrap_or(&lines);
    match lines {
        [why] => assert!(why.starts_with("  no figures: "), "{measured}"),
        _ => assert_eq!(lines.len(), 5, "{measured}"),
    }
    assert!(!measured.contains("missed"), "{measured}");
}

#[test]
fn the_line_for_jq_in_the_help_fits_what_is_printed() {
    let printed = Job::command("doctor --json").finish().out;
    let findings: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let is_finding = |one: &serde_json::Value| one["verdict"].is_string();
    assert!(findings["findings"].as_array().unwrap().iter().all(is_finding), "{findings}");
    let help = Job::command("doctor --help").finish().out;
    let line = help.lines().find(|line| line.contains("| jq ")).unwrap().trim();
    assert!(line.starts_with("clump doctor --json | jq '.findings[]"), "{line}");
    let clump = clump_process_tests::program("clump-under-test").display().to_string();
    let line =
        format!("command -v jq >/dev/null || exit 77; {}", line.replacen("clump", &clump, 1));
    let filtered = Job::any("sh").with_args(&["-c", &line]).finish();
    match filtered.code {
        77 => println!("SKIPPED in part: jq is not installed"),
        code => assert_eq!((code, filtered.err.as_str()), (0, ""), "{}", filtered.out),
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for words in
        ["run", "app", "app sort", "app gensort", "app valsort", "lab", "stats", "doctor", "demo"]
    {
        let help = Job::command(&format!("{words} --help")).finish();
        help.expect_clean();
        assert!(help.out.contains("Example"), "{words}: {}", help.out);
    }
    let list = Job::command("app").finish();
    assert!(list.out.contains("valsort"));
    assert!(Job::command("--version").finish().out.starts_with("clump "));
}

#[test]
fn the_doctor_describes_machines_as_json() {
    let shell = FakeShell::with_script("[ $machine = c ] && exit 255");
    let examined = shell.command("doctor --hosts a,c,b --json").finish();
    assert_eq!(examined.code, 1, "{}{}", examined.out, examined.err);
    let json: serde_json::Value =
        serde_json::from_str(&examined.out).unwrap_or_else(|e| panic!("{e}: {}", examined.out));
    assert_eq!((&json["format"], &json["usable"]), (&1.into(), &false.into()), "{json}");
    let machines = &json["machines"];
    for (at, name, usable) in [(0, "a", true), (1, "c", false), (2, "b", true)] {
        let one = &machines[at];
        assert_eq!((&one["names"][0], &one["usable"]), (&name.into(), &usable.into()), "{json}");
    }
    let line = |of: &serde_json::Value, at: usize| of["lines"][at].to_string();
    assert!(line(&machines[0], 1).starts_with("\"addresses: "), "{json}");
    assert!(line(&json["together"][0], 0).starts_with("\"a - b: round trip "), "{json}");
}
