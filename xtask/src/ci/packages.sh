# Installs a package into an empty root folder, and tries all of it there.
kind=$1 package=$2 root=$3 examples=$4
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info"
: >"$root/var/lib/dpkg/status"
# Root needs no namespace of users.
namespace=-rm
[ "$(id -u)" != 0 ] || namespace=-m
inside() {
    # shellcheck disable=SC2016
    unshare "$namespace" sh -ec 'root=$1; shift
        mount --rbind /proc "$root/proc"; mount --rbind /dev "$root/dev"
        exec chroot "$root" "$@"' sh "$root" "$@"
}
if ! unshare "$namespace" true; then
    echo "SKIPPED trying the $kind: no namespaces (sysctl kernel.unprivileged_userns_clone, or root)"
    exit 0
fi

if [ "$kind" = tarball ]; then
    tar -xzf "$package" -C "$root"
    folder=$(basename "$package" .tar.gz)
    # The launcher needs nothing; a program in C is given the C library.
    inside "/$folder/bin/clump" app gups -n 4 --nodes 2 >"$root/tmp/gups"
    grep -q 'verified: yes' "$root/tmp/gups"
    completions=$root/$folder/share/zsh/site-functions/_clump
else
    # libc6 is there in the form of its files.
    # shellcheck disable=SC2016
    unshare "$namespace" sh -c 'dpkg --root="$1" --force-depends --force-not-root --log=/dev/null \
        --install "$2"' sh "$root" "$package"
    folder=usr
    completions=$root/usr/share/zsh/vendor-completions/_clump
fi
prefix=$root/$folder

cp "$examples/ring.c" "$examples/counter.c" "$root/tmp"
"$prefix/bin/clump-cc" "$root/tmp/ring.c" -o "$root/tmp/ring"
"$prefix/bin/clump-cc" --clump-static "$root/tmp/counter.c" -o "$root/tmp/counter"
# The libraries of the system, as the package depends on them; clump's own is the package's.
for program in "$root/tmp/ring" "$root/tmp/counter" "$prefix/lib/libclump.so" "$prefix/bin/clump"; do
    ldd "$program" | grep -o '/[^ ]*' | grep -v libclump | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done || [ "$kind" = tarball ]
done
for program in ring counter; do
    LD_LIBRARY_PATH=/$folder/lib inside "/$folder/bin/clump" run -n 4 --nodes 2 "/tmp/$program"
done
if [ "$kind" = debian ]; then
    inside /usr/bin/clump app gups -n 4 --nodes 2 | grep -q 'verified: yes'
    # Without any variable: /usr/lib is a folder where the system looks.
    inside /usr/bin/clump run -n 2 /tmp/ring
fi

for page in "$prefix"/share/man/man1/clump.1* "$prefix"/share/man/man1/clump-run.1*; do
    test -s "$page"
    command -v man >/dev/null || { echo "SKIPPED rendering man pages: no man (man-db)"; break; }
    MANWIDTH=80 man -l --warnings "$page" >"$root/tmp/page" 2>"$root/tmp/warnings"
    grep -q '^NAME' "$root/tmp/page"
    [ ! -s "$root/tmp/warnings" ] || { cat "$root/tmp/warnings"; exit 1; }
done
command -v bash >/dev/null || { echo "SKIPPED completions of bash: no bash"; }
# shellcheck disable=SC2016
bash -ec '. "$1/share/bash-completion/completions/clump"
    COMP_WORDS=(clump doc) COMP_CWORD=1; _clump clump doc clump
    [ "${COMPREPLY[*]}" = doctor ] || { echo "bash completes doc by: ${COMPREPLY[*]}"; exit 1; }' \
    bash "$prefix"
for shell in zsh fish; do
    file=$completions
    [ $shell = zsh ] || file=$prefix/share/fish/vendor_completions.d/clump.fish
    test -s "$file"
    if command -v $shell >/dev/null; then $shell -n "$file"
    else echo "SKIPPED parsing the completions of $shell: it is not here"; fi
done

if [ "$kind" = debian ]; then
    # shellcheck disable=SC2016
    unshare "$namespace" sh -c 'dpkg --root="$1" --force-not-root --log=/dev/null --purge clump' \
        sh "$root"
    mkdir -p "$root/usr"
    left=$(find "$root/usr" -name '*clump*')
    [ -z "$left" ] || { echo "left after removal: $left"; exit 1; }
fi
echo "$kind: installed, run, and done"
