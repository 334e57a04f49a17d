# Tries a wheel under Pythons and C libraries that other releases of Debian have, each in a root of
# its own. The wheel: that for manylinux if there is one, else the suite's.
tree=$1 folder=$3 python=$4 wheel=$5
for old in "$folder"/../python-wheels/old/*.whl; do [ ! -f "$old" ] || wheel=$old; done
rm -rf "$folder"
mkdir -p "$folder"
# Root needs no namespace of users.
namespace=-rm
[ "$(id -u)" != 0 ] || namespace=-m
if ! unshare "$namespace" true || ! command -v dpkg-deb >/dev/null; then
    echo "SKIPPED other Pythons: no namespaces (root, or kernel.unprivileged_userns_clone), or no dpkg"
    exit 0
fi
inside() {
    root=$folder/$1/root
    shift
    # shellcheck disable=SC2016
    unshare "$namespace" sh -ec 'root=$1; shift
        mount --rbind /proc "$root/proc"; mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"
        exec chroot "$root" "$@"' sh "$root" "$@"
}

# of_release NAME apt-get's words: with lists and folders of its own.
of_release() {
    own=$folder/$1
    mirror=$(sed -n 's/^URIs: *//p; s/^deb [^h]*\(http[^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources \
        /etc/apt/sources.list 2>/dev/null | head -n 1)
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$own/state/lists/partial" "$own/cache/archives/partial" "$own/parts"
    echo "deb [signed-by=$keys] $mirror $1 main" >"$own/sources"
    : >"$own/state/status"
    shift
    apt-get -qq -o Dir::State="$own/state" -o Dir::State::status="$own/state/status" \
        -o Dir::Cache="$own/cache" -o Dir::Etc::SourceList="$own/sources" \
        -o Dir::Etc::SourceParts="$own/parts" -o APT::Sandbox::User=root \
        -o Acquire::Languages=none "$@"
}

# unpacked RELEASE PYTHONS LIBRARY...: the root of a release with these packages.
unpacked() {
    release=$1 own=$folder/$1 pythons=$2
    shift 2
    mkdir -p "$own/root/proc" "$own/root/dev" "$own/root/sys" "$own/root/tmp" "$own/packages"
    of_release "$release" update || return 1
    # shellcheck disable=SC2086
    pythons=$(of_release "$release" -s install $pythons |
        sed -n 's/^Inst \([a-z]*python3\.[0-9]*[a-z-]*\) .*/\1/p')
    # shellcheck disable=SC2086
    (cd "$own/packages" && of_release "$release" download libc6 libgcc-s1 zlib1g libexpat1 "$@" $pythons) ||
        return 1
    for package in "$own"/packages/*.deb; do dpkg-deb -x "$package" "$own/root" || return 1; done
    for name in bin lib lib64; do
        [ -e "$own/root/$name" ] || ln -s "usr/$name" "$own/root/$name"
    done
    mkdir "$own/root/site"
    "$python" -m zipfile -e "$wheel" "$own/root/site"
    chmod +x "$own/root/site/clump/bin/clump"
    cp -r "$tree/python/tests/programs" "$own/root/programs"
}

# The newest Pythons.
if ! unpacked sid "python3.14 python3.15" libstdc++6 libzstd1 >"$folder/log" 2>&1; then
    echo "SKIPPED the newest Pythons: Debian's packages cannot be fetched: $(tail -n 1 "$folder/log")"
else
    for own in "$folder"/sid/root/usr/bin/python3.[0-9][0-9]; do
        name=$(basename "$own")
        numpy=$folder/numpy-$name
        if ! "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$numpy" \
            --python-version "${name#python}" --platform manylinux_2_28_"$(uname -m)" \
            --platform manylinux_2_27_"$(uname -m)" numpy; then
            echo "SKIPPED $name: pip finds no NumPy for it"
            continue
        fi
        mkdir "$folder/sid/root/$name"
        "$python" -m zipfile -e "$numpy"/numpy-*.whl "$folder/sid/root/$name"
        for program in arrays collectives messages; do
            # shellcheck disable=SC2030
            (export PYTHONPATH="/site:/$name" PYTHONDONTWRITEBYTECODE=1
                inside sid "/usr/bin/$name" -m clump run -n 2 "/programs/$program.py") \
                >"$folder/out" 2>&1 || echo "code $?" >>"$folder/out"
            [ "$(grep -c '^ok' "$folder/out")" = 2 ] || { cat "$folder/out"; exit 1; }
        done
        echo "arrays, collectives and messages by $(inside sid "/usr/bin/$name" --version)"
    done
fi

# An old C library. Its Python is too old for the package: the launcher, libclump, and the loader's
# word on the extension module.
case $wheel in
    *manylinux_2_28*) ;;
    *) echo "SKIPPED an old C library: there is no wheel for it here"; exit 0 ;;
esac
if ! unpacked bullseye python3 libffi7 >"$folder/log" 2>&1; then
    echo "SKIPPED an old C library: Debian's packages cannot be fetched: $(tail -n 1 "$folder/log")"
    exit 0
fi
old=$(basename "$(ls "$folder"/bullseye/root/usr/bin/python3.[0-9]*)")
inside bullseye /site/clump/bin/clump app gups -n 2 --nodes 2 >"$folder/out"
grep -q 'verified: yes' "$folder/out"
inside bullseye /site/clump/bin/clump run -n 2 "/usr/bin/$old" -c '
import ctypes, os
library = ctypes.CDLL("/site/clump/lib/libclump.so.1")
library.clump_init_abi.restype = ctypes.c_void_p
job = ctypes.c_void_p(library.clump_init_abi(1, None, None))
assert library.clump_nranks(job) == 2
assert library.clump_finalize(job) == 0
try: ctypes.CDLL("/site/clump/_native.abi3.so", os.RTLD_LAZY)
except OSError as error: assert "GLIBC" not in str(error), error'
echo "launcher and libclump by $(inside bullseye "/usr/bin/$old" -c 'import os
print(os.confstr("CS_GNU_LIBC_VERSION"))')"
