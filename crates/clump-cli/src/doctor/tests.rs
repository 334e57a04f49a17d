use super::facts::{Facts, Programs};
use super::*;
use clump_os::OsError;
use clump_os::probe::{Limit, Limits, Memory};
use clump_os::topology::{Cpu, Topology};

const NONE: Limit = Limit { soft: None, hard: None };

/// Returns a machine on which nothing is missing: four CPUs, two to a core.
fn good() -> Facts {
    let cpu = |id: usize| Cpu { id, siblings: vec![id % 2, id % 2 + 2], package: 0, node: 0 };
    Facts {
        kernel: ("6.1.0-13-amd64".into(), "x86_64".into()),
        processor: Some("A Processor".into()),
        machine: Topology { cpus: (0..4).map(cpu).collect(), caches: Vec::new() },
        allowed: vec![0, 1, 2, 3],
        claimed: 1,
        quota: None,
        cycles: (Some(true), "tsc".into()),
        memory: Memory {
            total_bytes: 16 << 30,
            available_bytes: 12 << 30,
            shared_huge: Some("advise".into()),
            reserved_free: 0,
            reserved_page_bytes: 2 << 20,
        },
        limits: Limits {
            open_files: Limit { soft: Some(1024), hard: Some(1 << 20) },
            processes: NONE,
            locked_bytes: Limit { soft: Some(8 << 20), hard: Some(8 << 20) },
            file_bytes: NONE,
            address_bytes: NONE,
        },
        sealed_memory: Ok(()),
        pidfd: Ok(()),
        futex: Ok(()),
        membarrier: Ok(true),
        packet_socket: Ok(()),
        listeners: Some(0),
        udp_buffer: Ok(4 << 20),
        xdp: Ok(()),
        user_namespace: Ok(()),
        tun_device: Ok(()),
        instructions: Ok(()),
        perf_paranoia: Some(2),
        programs: Programs {
            valgrind: Some("valgrind-3.19.0".into()),
            python: Some("python 3.11.2 numpy 1.24.2".into()),
            ucx_perftest: Some("installed".into()),
            mpirun: Some("mpirun (Open MPI) 4.1.4".into()),
        },
    }
}

/// Returns the error of a call that the kernel refused.
fn refused(call: &str) -> OsError {
    let invalid = clump_os::topology::set_affinity(&[usize::MAX]).unwrap_err();
    OsError { call: call.to_owned(), ..invalid }
}

#[track_caller]
fn finding(facts: &Facts, name: &str) -> Finding {
    let all = checks::all(facts);
    all.into_iter().find(|f| f.name == name).unwrap()
}

#[track_caller]
fn is_degraded(facts: &Facts, name: &str, remedy: &str) {
    let found = finding(facts, name);
    assert_eq!(found.verdict, Verdict::Degraded, "{found:?}");
    assert!(found.remedy.contains(remedy), "{found:?}");
    assert!(usable(&checks::all(facts)));
}

#[test]
fn a_good_machine_has_nothing_to_remedy() {
    for found in checks::all(&good()) {
        assert_eq!(found.verdict, Verdict::Ok, "{found:?}");
        assert!(found.remedy.is_empty() && !found.found.is_empty() && !found.area.is_empty());
    }
}

#[test]
fn every_lack_says_what_it_means_and_how_to_end_it() {
    let mut bare = good();
    bare.sealed_memory = Err(refused("memfd_create"));
    bare.pidfd = Err(refused("pidfd_open"));
    bare.futex = Err(refused("futex"));
    bare.membarrier = Err(refused("membarrier"));
    bare.user_namespace = Err(refused("unshare"));
    bare.tun_device = Err(refused("opening /dev/net/tun"));
    bare.instructions = Err(refused("perf_event_open"));
    bare.programs = Programs::default();
    bare.memory = Memory::default();
    bare.kernel.0 = "4.4.0".into();
    bare.allowed = vec![1];
    let findings = checks::all(&bare);
    let lacking: Vec<_> = findings.iter().filter(|f| f.verdict != Verdict::Ok).collect();
    assert_eq!(lacking.len(), 15, "{lacking:#?}");
    assert!(lacking.iter().all(|f| !f.remedy.is_empty() && !f.meaning.is_empty()), "{lacking:#?}");
    assert!(!usable(&findings));
    let page = report(&findings);
    assert!(
        page.contains("cannot run here: kernel, sealed memory, pidfd, futex missing"),
        "{page}"
    );
}

#[test]
fn small_socket_buffers_are_told_of_with_the_setting() {
    let mut facts = good();
    facts.udp_buffer = Ok(212_992);
    is_degraded(&facts, "driver udp", "net.core.rmem_max=4194304");
    assert!(finding(&facts, "driver udp").found.contains("208 KiB, and ask for 4 MiB"));
    facts.udp_buffer = Err(refused("bind"));
    is_degraded(&facts, "driver udp", "ip link set lo up");
}

#[test]
fn what_is_not_essential_leaves_the_machine_usable() {
    let mut facts = good();
    facts.programs = Programs::default();
    facts.user_namespace = Err(refused("unshare"));
    let findings = checks::all(&facts);
    assert!(usable(&findings));
    assert!(report(&findings).ends_with("0 degraded, 5 optional missing.\n"));
}

#[test]
fn a_quota_below_the_affinity_is_told() {
    let mut facts = good();
    facts.quota = Some(1.5);
    is_degraded(&facts, "usable cores", "cpu.max");
    let found = finding(&facts, "usable cores").found;
    assert!(found.contains("grants 1.5 CPUs, 1 claimed by jobs"), "{found}");
    facts.quota = Some(4.0);
    assert_eq!(finding(&facts, "usable cores").verdict, Verdict::Ok);
}

#[test]
fn siblings_are_named_only_among_the_allowed() {
    let mut facts = good();
    assert!(finding(&facts, "sibling threads").found.contains("0+2, 1+3"));
    facts.allowed = vec![0, 1];
    assert_eq!(finding(&facts, "sibling threads").found, "none; 2 physical cores");
}

#[test]
fn limits_below_what_a_job_needs_are_told() {
    let mut facts = good();
    facts.limits.open_files = Limit { soft: Some(256), hard: Some(1024) };
    is_degraded(&facts, "open files", "ulimit -Hn");
    facts.limits.file_bytes = Limit { soft: Some(1 << 20), hard: None };
    is_degraded(&facts, "file size", "ulimit -f");
    assert_eq!(finding(&facts, "file size").found, "1 MiB");
    facts.limits.address_bytes = Limit { soft: Some(1 << 32), hard: None };
    is_degraded(&facts, "address space", "ulimit -v");
    facts.limits.locked_bytes = Limit { soft: Some(0), hard: Some(0) };
    assert_eq!(finding(&facts, "locked memory").verdict, Verdict::Ok);
}

#[test]
fn huge_pages_and_fences_degrade() {
    let mut facts = good();
    facts.memory.shared_huge = Some("never".into());
    is_degraded(&facts, "huge pages", "shmem_enabled");
    facts.membarrier = Ok(false);
    is_degraded(&facts, "membarrier", "4.16");
    facts.cycles.0 = Some(false);
    is_degraded(&facts, "cycle counter", "invariant");
}

#[test]
fn python_without_numpy_is_not_enough() {
    let mut facts = good();
    facts.programs.python = Some("python 3.11.2".into());
    let found = finding(&facts, "python and numpy");
    assert_eq!(found.verdict, Verdict::Missing);
    assert_eq!(found.found, "python 3.11.2, without numpy");
    assert!(found.remedy.contains("pip install numpy") && !found.essential);
}

#[test]
fn restricted_counters_have_another_remedy_than_absent_ones() {
    let mut facts = good();
    facts.instructions = Err(refused("perf_event_open"));
    assert!(finding(&facts, "perf counters").remedy.contains("valgrind"));
    facts.perf_paranoia = Some(4);
    assert!(finding(&facts, "perf counters").remedy.contains("perf_event_paranoid"));
}

#[test]
fn the_page_fits_its_width_and_stands_in_columns() {
    let mut facts = good();
    facts.processor = Some("A Very Long Name of a Processor With Many Words ".repeat(4));
    facts.memory.shared_huge = None;
    facts.user_namespace = Err(refused("entering a user namespace"));
    let page = report(&checks::all(&facts));
    for line in page.lines() {
        assert!(line.chars().count() <= WIDTH, "{line}");
        assert_eq!(line, line.trim_end(), "trailing blanks");
    }
    let line = page.lines().find(|line| line.contains("huge pages")).unwrap();
    assert_eq!(line.find("not supported"), Some(MARGIN), "{line}");
}

#[test]
fn json_says_the_same_as_the_page() {
    let findings = checks::all(&good());
    let value: serde_json::Value = serde_json::from_str(&json(&findings).unwrap()).unwrap();
    assert_eq!(value["usable"], true);
    let first = &value["findings"][0];
    assert_eq!((&first["name"], &first["verdict"]), (&"processor".into(), &"ok".into()));
    assert_eq!(value["findings"].as_array().unwrap().len(), findings.len());
}

#[test]
fn settings_are_objects_with_a_format_as_json() {
    let config = clump_boot::Config::default();
    let settings = serde_json::to_value(ConfigOutput::of(&config)).unwrap();
    assert_eq!(settings["format"], clump_os::console::JSON_FORMAT);
    assert_eq!(settings["settings"].as_array().unwrap().len(), config.entries().len());
    let of_studies = lab_parameters(&config.lab, true).unwrap();
    let of_studies: serde_json::Value = serde_json::from_str(&of_studies).unwrap();
    assert_eq!(of_studies["format"], clump_os::console::JSON_FORMAT);
    let known = of_studies["parameters"].as_array().unwrap();
    assert_eq!(known.len(), config.lab.entries().count());
    assert!(known.iter().all(|one| one["doc"].is_string()), "{of_studies}");
}

#[test]
fn this_machine_can_be_asked() {
    let findings = checks::all(&facts::gather());
    assert!(usable(&findings), "{}", report(&findings));
}

#[test]
fn drivers_say_whether_they_are_offered_and_what_to_do() {
    let here = finding(&good(), "driver packet");
    assert_eq!((here.verdict, here.essential), (Verdict::Ok, false));
    let crowded = |listeners| finding(&Facts { listeners, ..good() }, "driver packet");
    let most = clump_agent::MAX_LISTENERS;
    assert_eq!(crowded(Some(most - 4)).verdict, Verdict::Ok);
    for full in [Some(most - 3), Some(usize::MAX), None] {
        let full = crowded(full);
        assert_eq!(full.verdict, Verdict::Degraded);
        assert!(full.remedy.contains("--driver packet"), "{}", full.remedy);
    }
    let facts = Facts { packet_socket: Err(refused("opening a packet socket")), ..good() };
    let lacking = finding(&facts, "driver packet");
    assert_eq!(lacking.verdict, Verdict::Degraded);
    assert!(lacking.meaning.contains("--netns"), "{}", lacking.meaning);
    assert!(lacking.remedy.contains("cap_net_raw"), "{}", lacking.remedy);
    let facts = Facts { user_namespace: Err(refused("unshare")), ..facts };
    assert_eq!(finding(&facts, "driver packet").verdict, Verdict::Missing);
    assert_eq!(finding(&facts, "driver udp").verdict, Verdict::Ok);
    assert_eq!(finding(&facts, "driver xdp").verdict, Verdict::Ok);
    let facts = Facts { xdp: Err(refused("loading an XDP program")), ..facts };
    let lacking = finding(&facts, "driver xdp");
    assert_eq!(lacking.verdict, Verdict::Missing);
    assert!(lacking.remedy.contains("cap_bpf"), "{}", lacking.remedy);
    assert!(usable(&checks::all(&facts)), "UDP is enough");
}
