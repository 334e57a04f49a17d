//! Generates the C headers from the sources of this crate.
#![allow(clippy::expect_used, reason = "what fails here fails a test, or its caller")]

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use std::path::{Path, PathBuf};

/// A generated header.
pub struct Header {
    /// Its name below `include/`.
    pub name: &'static str,
    /// Its include guard.
    guard: &'static str,
    /// Its contents, in one sentence.
    about: &'static str,
    /// The files that it includes at its beginning.
    includes: &'static [&'static str],
    /// The source files that it is generated from, below `src/`.
    sources: &'static [&'static str],
    /// The files that it includes at its end: inline functions.
    last: &'static [&'static str],
    /// Types in it that no function names.
    types: &'static [&'static str],
}

/// The source file with the table of collectives, whose functions cbindgen does not see.
const TABLE: &str = "collectives.rs";

/// All generated headers.
pub const HEADERS: &[Header] = &[
    Header {
        name: "clump/job.h",
        guard: "CLUMP_JOB_H",
        about: "Starting and ending, who is who, errors, barrier and other collectives.",
        includes: &["<stddef.h>", "<stdint.h>"],
        sources: &[
            "abi.rs",
            "../../clump-ffi/src/status.rs",
            "status.rs",
            "../../clump-ffi/src/job.rs",
            "job.rs",
            "virtual_time.rs",
            "element.rs",
            TABLE,
        ],
        last: &["clump/job_inline.h"],
        types: &["clump_status"],
    },
    Header {
        name: "clump/am.h",
        guard: "CLUMP_AM_H",
        about: "Active messages: endpoints, handlers, requests and replies.",
        includes: &["clump/job.h"],
        sources: &["endpoint.rs", "handler.rs", "token.rs", "send.rs"],
        last: &["clump/am_inline.h"],
        types: &["clump_events", "clump_reason"],
    },
    Header {
        name: "clump/pending.h",
        guard: "CLUMP_PENDING_H",
        about: "Operations that have begun, to be tested and waited for.",
        includes: &["clump/job.h"],
        sources: &["pending.rs"],
        last: &[],
        types: &[],
    },
    Header {
        name: "clump/team.h",
        guard: "CLUMP_TEAM_H",
        about: "Teams: ranks that execute collectives together, at once or in two phases.",
        includes: &["clump/pending.h"],
        sources: &["team.rs", "team_start.rs", TABLE],
        last: &[],
        types: &[],
    },
    Header {
        name: "clump/rma.h",
        guard: "CLUMP_RMA_H",
        about: "One-sided operations: memory of other ranks, atomics, locks, flags.",
        includes: &["clump/pending.h"],
        sources: &["rma.rs", "words.rs", "strided.rs", "lock.rs", "flag.rs"],
        last: &["clump/rma_inline.h"],
        types: &["clump_atomic", "clump_comparison"],
    },
    Header {
        name: "clump/pgas.h",
        guard: "CLUMP_PGAS_H",
        about: "The global address space: pointers, spread arrays, operations that aggregate.",
        includes: &["clump/rma.h"],
        sources: &[
            "pgas.rs",
            "pgas_sync.rs",
            "pgas_access.rs",
            "pgas_many.rs",
            "pgas_atomic.rs",
            "pgas_halo.rs",
            "pgas_mutex.rs",
            "pgas_calls.rs",
            "pgas_objects.rs",
        ],
        last: &["clump/pgas_inline.h"],
        types: &["clump_layout"],
    },
    Header {
        name: "clump/work.h",
        guard: "CLUMP_WORK_H",
        about: "Irregular programs: copies of objects, queues of tasks, locks, channels, cost zones.",
        includes: &["clump/pgas.h"],
        sources: &["pgas_cache.rs", "pgas_queues.rs", "pgas_locks.rs", "pgas_channel.rs"],
        last: &[],
        types: &["clump_lock_kind"],
    },
    Header {
        name: "clump/svm.h",
        guard: "CLUMP_SVM_H",
        about: "Shared virtual memory: one heap at the same address in all ranks.",
        includes: &["clump/job.h"],
        sources: &["svm.rs", "svm_sync.rs", "svm_transfer.rs", "svm_workers.rs"],
        last: &["clump/svm_inline.h"],
        types: &["svm_home"],
    },
];

/// Returns the folder of this crate.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

impl Header {
    /// Returns the path of the header in the tree.
    pub fn path(&self) -> PathBuf {
        home().join("include").join(self.name)
    }

    /// Returns the text that the header must have.
    pub fn text(&self) -> String {
        let head = format!(
            "/* {}\n *\n * Made of the sources of clump-capi; to change it, change those, and run\n * \
             `cargo run -p clump-capi --example headers`.\n */",
            self.about
        );
        let mut config = Config {
            language: Language::C,
            header: Some(head),
            include_guard: Some(self.guard.to_owned()),
            no_includes: true,
            cpp_compat: true,
            style: Style::Both,
            documentation_style: DocumentationStyle::Doxy,
            usize_is_size_t: true,
            line_length: 110,
            ..Config::default()
        };
        let include = |name: &&str| match name.starts_with('<') {
            true => format!("#include {name}\n"),
            false => format!("#include \"{name}\"\n"),
        };
        config.after_includes = Some(self.includes.iter().map(include).collect());
        config.trailer = Some(self.last.iter().map(include).collect());
        config.enumeration.rename_variants = cbindgen::RenameRule::None;
        config.export.include = self.types.iter().map(ToString::to_string).collect();
        let start = Builder::new().with_config(config);
        let table = self.sources.contains(&TABLE).then(|| self.declared());
        let path = |source: &&str| match &table {
            Some(table) if *source == TABLE => table.clone(),
            _ => home().join("src").join(source),
        };
        let builder = self.sources.iter().map(path).fold(start, Builder::with_src);
        let mut text = Vec::new();
        builder.generate().expect("sources that cbindgen reads").write(&mut text);
        if let Some(table) = table {
            std::fs::remove_file(table).expect("the file written above");
        }
        of_1990(&String::from_utf8(text).expect("sources in UTF-8"))
    }
}

impl Header {
    /// Writes a file for cbindgen with the functions of the table of collectives that this header
    /// declares. Returns its path.
    fn declared(&self) -> PathBuf {
        let of_teams = self.name == "clump/team.h";
        let table = std::fs::read_to_string(home().join("src").join(TABLE)).expect("the table");
        let (_, rows) = table.split_once("collectives! {\n").expect("its macro");
        let rows = rows.trim_end().trim_end_matches('}').split("\n\n");
        let text: String = rows.map(|row| declarations(row, of_teams)).collect();
        let name = format!("clump-{}-{of_teams}.rs", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a temporary file");
        path
    }
}

/// Returns the functions of a row of the table, without bodies: of teams, or of the job.
fn declarations(row: &str, of_teams: bool) -> String {
    let (names, rest) = row.split_once('(').expect("arguments");
    let (arguments, rest) = rest.split_once("\n)\n").expect("the end of arguments");
    let (doc, rest) = rest.split_once("|team|").expect("a body");
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let function = |at: usize, doc: &str, first: &str, result: &str| {
        let name = names[at];
        format!(
            "{doc}\n#[no_mangle]\npub extern \"C\" fn {name}({first}, {arguments}) -> {result} {{}}\n"
        )
    };
    if !of_teams {
        return function(0, doc, "cl: *mut clump_t", "c_int");
    }
    let of_job = names[0];
    let of_team = format!(
        "/// Executes ::{of_job} among the ranks of a team, by their numbers in it.\n///\n\
         /// # Safety\n/// As for ::{of_job}."
    );
    let start: Vec<&str> = rest.lines().filter(|line| line.starts_with("///")).collect();
    let team = "team: *mut clump_team";
    function(1, &of_team, team, "c_int")
        + &function(2, &start.join("\n"), team, "*mut clump_pending")
}

/// Adapts a header to compilers for C of 1990, which has neither `//` comments nor a comma after
/// the last enumerator.
fn of_1990(text: &str) -> String {
    let line = |line: &str| match line.split_once("//") {
        Some((before, after)) if before.ends_with(' ') => {
            format!("{}/*{after} */", before.trim_end().to_owned() + " ")
        }
        _ => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n").replace(",\n}", "\n}") + "\n"
}
