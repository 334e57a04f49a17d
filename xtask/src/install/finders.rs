//! The files by which builds find libclump: pkg-config, CMake, and compiler wrappers.

use std::path::Path;

/// System libraries that a statically linked program needs.
const SYSTEM: &str = "-lpthread -ldl -lm";
/// Linker option that leaves unused functions out of such a program: each has a section of its
/// own.
const UNUSED_OUT: &str = "-Wl,--gc-sections";

/// Names of the linker's script and arguments for programs with threads, below `lib`.
pub const SCRIPT: &str = "clump-threads.ld";
pub const REPLACED: &str = "clump-threads.args";
/// Name of a link to the archive, by which `-l` finds no shared library.
pub const ARCHIVE: &str = "clump-static";

/// Characters that the name of a folder may not have: no shared library would be found in it, or
/// pkg-config or CMake would take it for something else. Each has the reason.
const REFUSED: [(char, &str); 7] = [
    (':', "PKG_CONFIG_PATH and the linker's -rpath would take it for two folders"),
    (';', "CMake would take it for two folders"),
    ('"', "pkg-config would take it for a quote"),
    ('\'', "pkg-config would take it for a quote"),
    ('\\', "pkg-config would leave it out"),
    ('$', "a shell would take it for a variable in what pkg-config prints"),
    ('\n', "pkg-config reads lines"),
];

/// Returns why programs would not find an installation in a folder of that name, if so.
pub fn refusal(prefix: &Path) -> Option<String> {
    let name = prefix.display().to_string();
    let (mark, why) = REFUSED.iter().find(|(mark, _)| name.contains(*mark))?;
    Some(format!("cannot install into {name:?}: its name has {mark:?}, and {why}; choose another"))
}

/// Returns the files for pkg-config, with their names: `clump` links the shared library, and has it
/// found at run time; `clump-static` links the archive. They know their own location.
///
/// The archive has a file of its own, since `--static` adds to what `clump` says, and cannot name
/// another library. A comma in the location would end an argument of `-Wl`; `-Xlinker` occurs once,
/// since pkg-config leaves out an option that is repeated. The archive is named by `-l`: pkg-config
/// quotes a blank in options only.
pub fn pkg_config(version: &str) -> [(&'static str, String); 2] {
    let shared = "-L${libdir} -Xlinker -rpath=${libdir} -lclump";
    let archive = format!("-L${{libdir}} -l{ARCHIVE} {UNUSED_OUT} {SYSTEM}");
    let file = |name: &str, libraries: &str| {
        format!(
            "prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: {name}
Description: Active messages and one-sided operations for clusters
Version: {version}
Libs: {libraries}
Cflags: -I${{includedir}}
"
        )
    };
    [("clump.pc", file("clump", shared)), ("clump-static.pc", file("clump-static", &archive))]
}

/// Returns the file for `find_package(clump)`: the targets `clump::clump` (shared) and
/// `clump::static`. CMake gives the linker the location by `-Wl`, which a comma would end: then the
/// target gives it.
pub fn cmake(version: &str, abi: &str) -> String {
    let system = SYSTEM.replace("-l", "").replace(' ', ";");
    format!(
        "# Targets clump::clump (the shared library) and clump::static.
get_filename_component(CLUMP_PREFIX \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)
if(NOT TARGET clump::clump)
  if(CLUMP_PREFIX MATCHES \",\")
    add_library(clump::clump INTERFACE IMPORTED)
    set_target_properties(clump::clump PROPERTIES
      INTERFACE_LINK_OPTIONS \"SHELL:-Xlinker \\\"-rpath=${{CLUMP_PREFIX}}/lib\\\"\"
      INTERFACE_LINK_LIBRARIES \"-L\\\"${{CLUMP_PREFIX}}/lib\\\" -lclump\")
  else()
    add_library(clump::clump SHARED IMPORTED)
    set_target_properties(clump::clump PROPERTIES
      IMPORTED_LOCATION \"${{CLUMP_PREFIX}}/lib/libclump.so.{version}\"
      IMPORTED_SONAME \"libclump.so.{abi}\")
  endif()
  set_target_properties(clump::clump PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES \"${{CLUMP_PREFIX}}/include\")
  add_library(clump::static STATIC IMPORTED)
  set_target_properties(clump::static PROPERTIES
    IMPORTED_LOCATION \"${{CLUMP_PREFIX}}/lib/libclump.a\"
    INTERFACE_INCLUDE_DIRECTORIES \"${{CLUMP_PREFIX}}/include\"
    INTERFACE_LINK_LIBRARIES \"{UNUSED_OUT};{system}\")
endif()
set(CLUMP_RUN \"${{CLUMP_PREFIX}}/bin/clump\")
"
    )
}

/// Returns the file that checks if a requested version is this one: before 1.0, minor versions may
/// break.
pub fn cmake_version(version: &str) -> String {
    let minor: Vec<&str> = version.split('.').take(2).collect();
    let minor = minor.join(".");
    format!(
        "set(PACKAGE_VERSION \"{version}\")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
elseif(\"${{PACKAGE_FIND_VERSION_MAJOR}}.${{PACKAGE_FIND_VERSION_MINOR}}\" STREQUAL \"{minor}\" OR NOT PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
else()
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
"
    )
}

/// Returns a compiler wrapper that knows the location of libclump.
pub fn wrapper(compiler: &str, variable: &str) -> String {
    // The headers for C++ need this standard; words of the user come behind it, and may differ.
    let standard = if compiler == "c++" { "-std=gnu++20 " } else { "" };
    format!(
        include_str!("wrapper.sh.in"),
        compiler = compiler,
        variable = variable,
        standard = standard,
        SCRIPT = SCRIPT,
        REPLACED = REPLACED,
        UNUSED_OUT = UNUSED_OUT,
        SYSTEM = SYSTEM,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Returns the words that a shell reads in what pkg-config says about a library of an
    /// installation that lies in `prefix`.
    fn said(prefix: &Path, words: &str) -> Vec<String> {
        let mut shell = Command::new("sh");
        shell.args(["-ec", &format!("said=$(pkg-config {words}); eval \"printf '%s\\n' $said\"")]);
        let output = shell.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_library_is_found_by_its_name_in_a_folder_of_any_name_that_is_not_refused() {
        if crate::host::program("pkg-config").is_none() {
            println!("SKIPPED what pkg-config says: it is not here; install it");
            return;
        }
        let base = std::env::temp_dir().join(format!("clump-finders-{}", std::process::id()));
        for name in ["plain", "a b,c", "#&*~=@%+"] {
            let prefix = base.join(name);
            assert_eq!(refusal(&prefix), None);
            let folder = prefix.join("lib/pkgconfig");
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in pkg_config("1.2.3") {
                std::fs::write(folder.join(name), text).unwrap();
            }
            assert_eq!(said(&prefix, "--modversion clump"), ["1.2.3"]);
            let at = |below: &str| format!("{}/lib/pkgconfig/../../{below}", prefix.display());
            let shared = said(&prefix, "--libs clump");
            let rpath = format!("-rpath={}", at("lib"));
            assert_eq!(shared, [&format!("-L{}", at("lib")), "-Xlinker", &rpath, "-lclump"]);
            let archive = said(&prefix, "--libs clump-static");
            let folder = format!("-L{}", at("lib"));
            let due = [&folder, "-lclump-static", "-Wl,--gc-sections", "-lpthread", "-ldl", "-lm"];
            assert_eq!(archive, due);
            let headers = said(&prefix, "--cflags clump-static");
            assert_eq!(headers, [format!("-I{}", at("include"))]);
        }
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_folder_where_programs_would_not_find_the_library_is_refused_in_words() {
        for (name, says) in [
            ("/tmp/a b,c:d", "has ':', and PKG_CONFIG_PATH"),
            ("/tmp/a;b", "CMake"),
            ("/tmp/it's", "a quote"),
            ("/tmp/$a", "a variable"),
        ] {
            let why = refusal(Path::new(name)).unwrap();
            assert!(why.contains(says) && why.lines().count() == 1, "{why}");
        }
        assert_eq!(refusal(Path::new("/tmp/a b,c (x86)")), None);
    }

    /// Runs the wrapper with a compiler that names a linker; returns its output, and its success.
    fn threads(linker: &str, words: &[&str]) -> (String, bool) {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("finders-{}-{linker}", std::process::id()));
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        let wrapped = folder.join("bin/clump-cc");
        std::fs::write(&wrapped, wrapper("cc", "CLUMP_CC")).unwrap();
        let compiler = folder.join("compiler");
        std::fs::write(&compiler, format!("#!/bin/sh\necho '{linker} (of a test)'\n")).unwrap();
        std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut shell = std::process::Command::new("sh");
        shell.arg(&wrapped).args(["--clump-threads", "--clump-show"]).args(words);
        let done = shell.env("CLUMP_CC", &compiler).output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let says = [done.stdout, done.stderr].concat();
        (String::from_utf8(says).unwrap(), done.status.success())
    }

    #[test]
    fn what_threads_cannot_be_linked_with_is_said_in_one_line() {
        for (linker, words, says) in [
            ("GNU ld", vec!["-static"], "does not go with -static: "),
            ("GNU ld", vec!["-fsanitize=address"], "does not go with -fsanitize=address: "),
            ("GNU ld", vec!["-c", "-fsanitize=thread"], "does not go with -fsanitize=thread: "),
            ("LLD", vec!["-fuse-ld=lld"], "needs GNU ld, not `LLD (of a test)`"),
            ("mold", vec![], "needs GNU ld, not `mold (of a test)`"),
        ] {
            let (text, done) = threads(linker, &words);
            assert!(!done && text.contains(says) && text.lines().count() == 1, "{text}");
        }
        let (text, done) = threads("GNU ld", &["-pie", "-fPIE", "x.c"]);
        assert!(done && text.contains("x.c -U_FORTIFY_SOURCE -fPIC -no-pie"), "{text}");
        // Compiling asks for no linker.
        let (text, done) = threads("LLD", &["-c", "x.c"]);
        assert!(done && text.contains("x.c -U_FORTIFY_SOURCE -fPIC"), "{text}");
    }

    #[test]
    fn the_help_of_a_wrapper_names_its_variable() {
        use std::io::Write;
        use std::process::{Command, Stdio};
        for (compiler, variable) in [("cc", "CLUMP_CC"), ("c++", "CLUMP_CXX")] {
            let mut shell = Command::new("sh");
            shell.args(["-s", "--", "--help"]).env(variable, "");
            shell.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.spawn().unwrap();
            let script = wrapper(compiler, variable);
            shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
            let said = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
            assert!(said.contains(&format!("\n  {variable} ")), "{said}");
        }
    }

    /// Returns what a wrapper in a folder of that name does with these words.
    fn wrapped(name: &str, words: &[&str]) -> (bool, String) {
        let base = std::env::temp_dir().join(format!("wrapper-{}", std::process::id()));
        let prefix = base.join(name);
        for (file, text) in [
            ("bin/clump-cc", wrapper("cc", "CLUMP_CC")),
            ("lib/clump-threads.args", "-z relro\n--wrap=open\n".into()),
        ] {
            let path = prefix.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut sh = std::process::Command::new("sh");
        let done = sh.arg(prefix.join("bin/clump-cc")).args(words).output().unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        let at = prefix.canonicalize().unwrap().display().to_string();
        std::fs::remove_dir_all(base).unwrap();
        (done.status.success(), said.replace(&at, "PREFIX"))
    }

    #[test]
    fn a_wrapper_works_in_a_folder_of_any_name_that_the_linker_takes() {
        let show = ["--clump-show", "it's.c"];
        for name in ["plain", "with blank", "with,comma", "it's", "$(x);*"] {
            let (done, said) = wrapped(name, &show);
            assert!(done, "{said}");
            let rest = said.split("-L").nth(1).unwrap();
            assert!(
                rest.contains("-Xlinker -rpath -Xlinker") && !said.contains("-Wl,-rpath"),
                "{said}"
            );
            assert!(said.contains(r"'it'\''s.c'"), "{said}");
            let (done, said) = wrapped(name, &[&show[..], &["--clump-threads"]].concat());
            assert!(done, "{said}");
            let each = "-Xlinker -z -Xlinker relro -Xlinker --wrap=open";
            assert_eq!(said.contains(each), name.contains(','), "{said}");
            assert_eq!(said.contains("-Wl,@"), !name.contains(','), "{said}");
        }
        let (done, said) = wrapped("with:colon", &show);
        assert!(!done && said.contains("colon: use --clump-static"), "{said}");
        assert!(wrapped("with:colon", &[&show[..], &["--clump-static"]].concat()).0);
    }

    #[test]
    fn files_name_the_library() {
        assert!(cmake("1.2.3", "7").contains("IMPORTED_SONAME \"libclump.so.7\""));
        assert!(cmake("1.2.3", "7").contains("\"-Wl,--gc-sections;pthread;dl;m\""));
        assert!(wrapper("cc", "CLUMP_CC").contains("libclump.a\" -Wl,--gc-sections -lpthread"));
        assert!(wrapper("c++", "CLUMP_CXX").contains("set -- -std=gnu++20 -I\"$prefix/include\""));
        assert!(wrapper("cc", "CLUMP_CC").contains("set -- -I\"$prefix/include\""));
        assert!(cmake_version("1.2.3").contains("STREQUAL \"1.2\""));
        assert!(wrapper("cc", "CLUMP_CC").contains("compiler=${CLUMP_CC:-cc}"));
    }
}
