//! The files by which builds find libclump: pkg-config, CMake, and compiler wrappers.

/// System libraries that a statically linked program needs.
const SYSTEM: &str = "-lpthread -ldl -lm";
/// Linker option that leaves unused functions out of such a program: each has a section of its
/// own.
const UNUSED_OUT: &str = "-Wl,--gc-sections";

/// Names of the linker's script and arguments for programs with threads, below `lib`.
pub const SCRIPT: &str = "clump-threads.ld";
pub const REPLACED: &str = "clump-threads.args";

/// Returns the file for pkg-config, which knows the file's own location.
pub fn pkg_config(version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: clump
Description: Active messages and one-sided operations for clusters
Version: {version}
Libs: -L${{libdir}} -lclump
Libs.private: {UNUSED_OUT} {SYSTEM}
Cflags: -I${{includedir}}
"
    )
}

/// Returns the file for `find_package(clump)`: the targets `clump::clump` (shared) and
/// `clump::static`.
pub fn cmake(version: &str, abi: &str) -> String {
    let system = SYSTEM.replace("-l", "").replace(' ', ";");
    format!(
        "# Targets clump::clump (the shared library) and clump::static.
get_filename_component(CLUMP_PREFIX \"${{CMAKE_CURRENT_LIST_DIR}}/../../..\" ABSOLUTE)
if(NOT TARGET clump::clump)
  add_library(clump::clump SHARED IMPORTED)
  set_target_properties(clump::clump PROPERTIES
    IMPORTED_LOCATION \"${{CLUMP_PREFIX}}/lib/libclump.so.{version}\"
    IMPORTED_SONAME \"libclump.so.{abi}\"
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
    format!(
        r#"#!/bin/sh
# `{compiler}` (or ${variable}) with what programs that use clump need.
prefix=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd) || exit 1
compiler=${{{variable}:-{compiler}}}
link=shared
compile_only=no
threads=no
for word in "$@"; do
    case $word in
        -c | -S | -E | -M | -MM | -fsyntax-only) compile_only=yes ;;
        --clump-static) link=static ;;
        --clump-threads) threads=yes ;;
        --clump-show) link_show=yes ;;
        --help)
            echo "usage: clump-{compiler} [--clump-static | --clump-threads] [--clump-show] WORDS OF {compiler}..."
            echo "  --clump-static   link libclump.a instead of libclump.so"
            echo "  --clump-threads  compile and link a program for pthreads that runs on several ranks"
            echo "  --clump-show     print the command instead of running it"
            echo "  ${variable}      the compiler, if it is not {compiler}"
            exit 0
            ;;
    esac
done
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    case $word in
        --clump-static | --clump-threads | --clump-show) ;;
        *) set -- "$@" "$word" ;;
    esac
    count=$((count - 1))
done
if [ "$threads" = yes ]; then
    if [ "$link" = static ]; then
        echo "clump-{compiler}: --clump-threads needs the shared library: leave out --clump-static" >&2
        exit 1
    fi
    # Checked functions of the C library would be called past those that stand in for them.
    set -- -U_FORTIFY_SOURCE -fPIC "$@"
    if [ "$compile_only" = no ]; then
        set -- -no-pie -Wl,-T,"$prefix/lib/{SCRIPT}" -Wl,@"$prefix/lib/{REPLACED}" "$@"
    fi
fi
set -- -I"$prefix/include" "$@"
if [ "$compile_only" = no ]; then
    if [ "$link" = static ]; then
        set -- "$@" "$prefix/lib/libclump.a" {UNUSED_OUT} {SYSTEM}
    else
        set -- "$@" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lclump
    fi
fi
if [ "${{link_show:-no}}" = yes ]; then
    echo "$compiler" "$@"
    exit 0
fi
exec "$compiler" "$@"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_the_library() {
        assert!(pkg_config("1.2.3").contains("Version: 1.2.3\nLibs: -L${libdir} -lclump\n"));
        assert!(cmake("1.2.3", "7").contains("IMPORTED_SONAME \"libclump.so.7\""));
        assert!(cmake("1.2.3", "7").contains("\"-Wl,--gc-sections;pthread;dl;m\""));
        assert!(pkg_config("1.2.3").contains("Libs.private: -Wl,--gc-sections -lpthread"));
        assert!(wrapper("cc", "CLUMP_CC").contains("libclump.a\" -Wl,--gc-sections -lpthread"));
        assert!(cmake_version("1.2.3").contains("STREQUAL \"1.2\""));
        assert!(wrapper("cc", "CLUMP_CC").contains("compiler=${CLUMP_CC:-cc}"));
    }
}
