//! The model checker in every shape, order and bound: counts are the same, or it says why there are
//! none.

use clump_process_tests::{Folder, Job, until};
use clump_test_tier::first_of;
use serde_json::Value;

/// Signal that ends a process at once.
const KILL: u8 = 9;

/// Runs the checker, and returns its report; its exit code has to be this.
fn report(words: &str, code: i32) -> Value {
    let ended = Job::command(&format!("app murphi {words} --json")).finish();
    assert_eq!(ended.code, code, "{words}: {}{}", ended.out, ended.err);
    ended.json()
}

fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name].as_u64().unwrap_or_else(|| panic!("`{name}` is in {report}"))
}

fn result(report: &Value) -> &str {
    report["choices"]["result"].as_str().unwrap_or_else(|| panic!("a result is in {report}"))
}

/// Bits of the model `counter` that has 2^n states, n rules fire in each.
fn counter(bits: u64) -> (u64, u64) {
    (1 << bits, bits << bits)
}

fn counts(report: &Value) -> (u64, u64) {
    (count(report, "states"), count(report, "rules fired"))
}

#[test]
fn counts_are_those_of_any_number_of_ranks() {
    for (ranks, nodes) in
        first_of(3, &[(5, 2), (8, 3), (3, 1), (7, 1), (6, 4), (2, 2), (4, 1), (1, 1)])
    {
        for order in ["levels", "asynchronous"] {
            let line = format!("german --order {order} -n {ranks} --nodes {nodes}");
            assert_eq!(counts(&report(&line, 0)), (1461, 3864), "{line}");
        }
        let line = format!("list --symmetry exact --compact 48 -n {ranks} --nodes {nodes}");
        assert_eq!(counts(&report(&line, 0)), (13, 20), "{line}");
    }
}

#[test]
fn states_beyond_memory_go_to_disk() {
    let folder = Folder::new();
    let spill = format!("--spill {}", folder.path().display());
    for (compact, memory) in [("", "1M"), ("--compact", "1M")] {
        let line =
            format!("counter --set Bits=16 --memory {memory} {compact} --max-omission 1 -n 2");
        let full = report(&line, 3);
        assert_eq!(result(&full), "incomplete: memory", "{full}");
        for order in ["levels", "asynchronous"] {
            let spilled = report(&format!("{line} {spill} --order {order}"), 0);
            assert_eq!(counts(&spilled), counter(16), "{spilled}");
            assert!(count(&spilled, "bytes on disk") > 1 << 19, "{spilled}");
            let bytes = count(&spilled, "bytes for states");
            assert!(bytes <= 7 << 20, "{spilled}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have no names");
    let nowhere = Job::command("app murphi german -n 2 --spill /no/such/folder").finish();
    assert!(nowhere.code != 0 && nowhere.err.contains("--spill"), "{}", nowhere.err);
}

#[test]
fn a_full_disk_ends_the_search_in_words() {
    let enter = ["--user", "--map-root-user", "--mount"];
    let tried = Job::any("unshare").with_args(&enter).with_args(&["true"]).finish();
    if tried.code != 0 {
        println!("skipped: no mount namespace without privileges here: {}", tried.err);
        return;
    }
    let folder = Folder::new();
    let program = clump_process_tests::program("clump-under-test");
    let run = format!(
        "mount -t tmpfs -o size=600k none {0} && exec {1} app murphi counter --set Bits=16 -n 2",
        folder.path().display(),
        program.display()
    );
    for (options, what) in
        [("--memory 1M --spill", "writing"), ("--checkpoint-every 0 --checkpoint", "writing")]
    {
        let script = format!("{run} {options} {}", folder.path().display());
        let ended =
            Job::any("unshare").with_args(&enter).with_args(&["sh", "-c", &script]).finish();
        assert!(ended.code > 0 && ended.code != 3, "{}: {}{}", ended.code, ended.out, ended.err);
        let says = ended.err.contains("No space left on device") && ended.err.contains(what);
        assert!(says, "{}", ended.err);
    }
}

#[test]
fn a_search_goes_on_after_a_rank_was_killed() {
    let folder = Folder::new();
    let at = folder.path().display();
    let keep = format!("--checkpoint {at} --checkpoint-every 0");
    for compact in ["", "--compact --max-omission 1"] {
        let line = format!("counter --set Bits=17 {keep} {compact}");
        let job = Job::command(&format!("app murphi {line} -n 3 --nodes 2 --progress 0")).start();
        let manifest = folder.path().join("manifest");
        until("a checkpoint", || manifest.exists().then_some(()));
        job.signal(job.rank(1), KILL);
        let ended = job.finish();
        assert!(ended.code > 0 && ended.err.contains("rank 1"), "{}: {}", ended.code, ended.err);
        // On as many ranks, on fewer and on more; each leaves a checkpoint of its last level.
        for ranks in [3, 2, 4] {
            let resumed = report(&format!("{line} --resume -n {ranks} --nodes 2"), 0);
            assert_eq!(counts(&resumed), counter(17), "{resumed}");
            assert_eq!(count(&resumed, "depth"), 17, "{resumed}");
        }
        std::fs::remove_file(&manifest).unwrap();
    }
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let folder = Folder::new();
    let keep = format!("--checkpoint {} --checkpoint-every 0", folder.path().display());
    report(&format!("counter {keep} -n 2"), 0);
    let refused = |words: &str, why: &str| {
        let ended = Job::command(&format!("app murphi {words} {keep} --resume -n 2")).finish();
        assert!(ended.code > 0 && ended.code != 3, "{}: {}", ended.code, ended.err);
        assert!(ended.err.contains(why), "{words}: {}", ended.err);
    };
    refused("german", "is of another model");
    refused("counter --set Bits=5", "is of another model");
    refused("counter --compact", "is of another model");
    let states = std::fs::read_dir(folder.path()).unwrap().filter_map(Result::ok);
    let states = states.map(|it| it.path()).find(|it| it.ends_with("states-13-1"));
    let states = states.unwrap_or_else(|| panic!("a file of each rank, and the last generation"));
    let mut bytes = std::fs::read(&states).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&states, &bytes).unwrap();
    refused("counter", "is damaged");
    std::fs::write(&states, &bytes[..300]).unwrap();
    refused("counter", "reading the checkpoint");
    std::fs::write(folder.path().join("manifest"), "nothing").unwrap();
    refused("counter", "reading the checkpoint");
    let ended = Job::command(&format!("app murphi counter {keep} --order asynchronous")).finish();
    ended.expect(2, &["checkpoints are written at ends of levels"]);
}

#[test]
fn an_error_is_found_in_any_order_with_its_path() {
    let folder = Folder::new();
    let model = folder.path().join("model.m");
    let text = "const N: 3; type P: scalarset(N); var n: array [P] of 0..4; s: boolean;
        startstate for p: P do n[p] := 0 end; s := false end;
        ruleset p: P do rule \"up\" n[p] < 4 ==> begin n[p] := n[p] + 1 end end;
        rule \"last\" forall p: P do n[p] = 4 end ==> begin s := true end;
        invariant \"not all\" !s;";
    std::fs::write(&model, text).unwrap();
    let model = model.display();
    for order in ["levels", "asynchronous"] {
        for options in ["", "--symmetry exact", "--compact", "--compact --symmetry normal"] {
            let line = format!("{model} --order {order} {options} -n 3 --nodes 2");
            let found = report(&line, 1);
            assert_eq!(result(&found), "error", "{line}: {found}");
            assert_eq!(count(&found, "steps to the error"), 13, "{line}: {found}");
        }
    }
    let blind = report(&format!("{model} --compact --no-trace -n 2"), 3);
    assert_eq!(result(&blind), "incomplete: an error without a path");
}

#[test]
fn machine_code_finds_the_same() {
    for line in ["msi --symmetry exact", "german", "bakery --set Limit=3"] {
        let [plain, compiled] = ["", "--compiled"]
            .map(|how| report(&format!("{line} {how} --check -n 3 --nodes 2"), 0));
        assert_eq!(counts(&plain), counts(&compiled), "{line}");
        let by = &compiled["choices"]["steps by"];
        if by == "byte code" {
            println!("skipped: there is no C compiler (Debian: apt-get install gcc)");
            return;
        }
        assert_eq!(by, "machine code");
    }
}

/// Writes a model into a folder. Returns the words that name it.
fn written(folder: &Folder, text: &str) -> String {
    let model = folder.path().join("model.m");
    std::fs::write(&model, text).unwrap();
    model.display().to_string()
}

#[test]
fn dead_ends_are_errors_as_asked() {
    let folder = Folder::new();
    let begin = "var x: 0..3; startstate x := 0 end; rule x < 3 ==> begin x := x + 1 end;";
    let stutters = format!("{begin} rule \"stay\" x = 3 ==> begin x := 3 end;");
    let goes_on = format!("{begin} rule \"begin anew\" x = 3 ==> begin x := 0 end;");
    let no_rule = "deadlock: no rule can fire";
    let nowhere = "deadlock: no rule leads to another state";
    for (text, [off, stuck, stuttering]) in [
        (begin, [None, Some(no_rule), Some(nowhere)]),
        (stutters.as_str(), [None, None, Some(nowhere)]),
        (goes_on.as_str(), [None; 3]),
    ] {
        let model = written(&folder, text);
        for (mode, error) in [("off", off), ("stuck", stuck), ("stuttering", stuttering)] {
            let line = format!("{model} --deadlock {mode} -n 3 --nodes 2");
            let found = report(&line, i32::from(error.is_some()));
            assert_eq!(result(&found), if error.is_some() { "error" } else { "no error" });
            if let Some(error) = error {
                assert_eq!(count(&found, "steps to the error"), 3, "{line}: {found}");
                assert!(found["text"].to_string().contains(error), "{line}: {found}");
            }
        }
        // Stuttering counts unless something else is asked for.
        report(&format!("{model} -n 2"), i32::from(stuttering.is_some()));
    }
}

#[test]
fn what_was_not_searched_for_sure_is_no_verdict() {
    let short = report("counter --set Bits=10 --compact 16 -n 2", 3);
    assert_eq!(result(&short), "incomplete: states may be omitted", "{short}");
    let probability = short["figures"]["omission probability, at most"].as_f64().unwrap();
    assert!(probability > 0.9, "1024 keys of 16 bits: {short}");
    let some = report("counter --set Bits=10 --max-states 100 -n 2", 3);
    assert_eq!(result(&some), "incomplete: --max-states", "{some}");
    let states = count(&some, "states");
    assert!((100..1024).contains(&states), "up to the end of a level: {some}");
    for (options, compared) in
        [("--size ci", "those of the serial version"), ("--size measure", "not compared")]
    {
        let whole = report(&format!("peterson {options} -n 2"), 0);
        assert_eq!(whole["choices"]["counts"], compared, "{whole}");
    }
}

#[test]
fn a_path_is_the_same_for_any_number_of_ranks() {
    let folder = Folder::new();
    // Several errors at equal distance, and several ways to each.
    let text = "type P: scalarset(3); var at: array [P] of 0..5; last: P; count: 0..9;
        startstate for p: P do at[p] := 0 end; undefine last; count := 0 end;
        ruleset p: P; n: 1..2 do rule \"move\" at[p] + n <= 5 & count < 9 ==> begin
          at[p] := at[p] + n; last := p; count := count + 1 end end;
        ruleset p: P do rule \"fall\" at[p] = 5 ==> begin assert exists q: P do at[q] = 0 end
          \"all have moved\"; at[p] := 0 end end;";
    let model = written(&folder, text);
    for options in ["", "--symmetry exact", "--compact", "--compact --symmetry normal"] {
        let mut first = None;
        for (ranks, nodes) in [(1, 1), (3, 2), (5, 1)] {
            let found = report(&format!("{model} {options} -n {ranks} --nodes {nodes}"), 1);
            let text = found["text"].as_array().unwrap().clone();
            let path = text.iter().position(|line| line == "path to it, replayed:").unwrap();
            let steps = text.iter().filter(|line| line.to_string().contains("\\\"move\\\", p: "));
            assert_eq!(steps.count(), 5, "2, 2 and 1 of one, 1 of each other: {text:?}");
            assert!(text[path - 1].as_str().unwrap().contains("all have moved, in \"fall\", p: "));
            assert_eq!(*first.get_or_insert(text.clone()), text, "{options} {ranks} {nodes}");
        }
    }
}

#[test]
fn progress_has_counts_and_a_rate() {
    // Longer than a second on any machine, and ended by a signal once a line has come.
    let job = Job::command("app murphi counter --set Bits=26 --progress 1 -n 2").start();
    let line = until("a line of progress", || {
        let said = job.errors_so_far();
        said.lines().find(|line| line.contains("states/s")).map(str::to_owned)
    });
    job.signal(job.rank(1), KILL);
    job.finish();
    let numbers = ["states, ", "rules fired, ", "queued, depth ", "states/s, ", "MB"];
    assert!(numbers.iter().all(|part| line.contains(part)), "{line}");
}
