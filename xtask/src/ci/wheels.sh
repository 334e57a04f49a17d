# Wheels as they are given away: what maturin makes by itself, the size of a release, and one for the
# C library of 2018, which stays in FOLDER/old.
tree=$1 target=$2 folder=$3 python=$4
rm -rf "$folder"
mkdir -p "$folder/direct" "$folder/release" "$folder/old" "$folder/unpacked"
wheel() {
    "$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-cache-dir --wheel-dir "$@"
}
holds_all() {
    "$python" -m zipfile -l "$1" >"$folder/names"
    for name in clump/bin/clump clump/lib/libclump.so.1 clump/include/clump.h clump/_native.abi3.so; do
        grep -q "^$name " "$folder/names" || { echo "$1 has no $name"; exit 1; }
    done
}

# Without the build backend: build.rs has the programs made. In the tree, which is as before then.
(cd "$tree/python" && CARGO_TARGET_DIR=$target/python maturin build --quiet --out "$folder/direct")
(cd "$tree/python/package/clump" && rm -rf bin include lib)
holds_all "$(echo "$folder"/direct/*.whl)"

limit=15000000
CLUMP_PYTHON_PROFILE=release CARGO_TARGET_DIR=$target wheel "$folder/release" "$tree/python"
holds_all "$(echo "$folder"/release/*.whl)"
size=$(stat -c %s "$folder"/release/*.whl)
echo "the wheel of a release has $size bytes"
[ "$size" -lt $limit ] || { echo "the limit is $limit"; exit 1; }

if ! "$python" -m ziglang version >/dev/null 2>&1 || ! command -v cargo-zigbuild >/dev/null; then
    echo "SKIPPED the wheel for manylinux: no zig here (pip install ziglang cargo-zigbuild)"
    exit 0
fi
CLUMP_PYTHON_MANYLINUX=2_28 CARGO_TARGET_DIR=$target/python-elsewhere wheel "$folder/old" "$tree/python"
case $(echo "$folder"/old/*) in
    *cp310-abi3-manylinux_2_28_x86_64.whl | *cp310-abi3-manylinux_2_28_aarch64.whl) ;;
    *) echo "not a wheel for manylinux: $(ls "$folder/old")"; exit 1 ;;
esac
holds_all "$(echo "$folder"/old/*.whl)"
"$python" -m zipfile -e "$folder"/old/*.whl "$folder/unpacked"
for file in bin/clump lib/libclump.so.1 _native.abi3.so; do
    newest=$(readelf -V "$folder/unpacked/clump/$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    echo "$file needs $newest"
    [ "$(printf 'GLIBC_2.28\n%s\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] ||
        { echo "$file needs a newer C library than the wheel's name says"; exit 1; }
done

"$python" -m venv "$folder/clean"
"$folder/clean/bin/python" -m pip install --quiet --no-index --no-deps "$folder"/old/*.whl
"$folder/clean/bin/python" -m clump run -n 2 -c 'import clump; w = clump.world()
print("hello from", w.rank); assert w.allreduce(1) == 2'
if ! "$folder/clean/bin/python" -m pip install --quiet numpy; then
    echo "SKIPPED arrays by the wheel for manylinux: pip cannot install NumPy: is there a network?"
    exit 0
fi
"$folder/clean/bin/python" -m clump run -n 2 "$tree/python/tests/programs/arrays.py"
