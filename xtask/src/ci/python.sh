# Builds the source distribution, a wheel from it, and a wheel for ARM; looks into all of them.
tree=$1 target=$2 folder=$3 python=$4
rm -rf "$folder"
mkdir -p "$folder/sdist" "$folder/from-sdist" "$folder/arm" "$folder/unpacked"
wheel() {
    "$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-cache-dir --wheel-dir "$@"
}

(cd "$tree/python" && "$python" -B -c 'import build_backend, sys
build_backend.build_sdist(sys.argv[1])' "$folder/sdist")
CARGO_TARGET_DIR=$target/python-elsewhere wheel "$folder/from-sdist" "$folder"/sdist/*.tar.gz
(cd "$folder/from-sdist" && "$python" -m zipfile -l ./*.whl >"$folder/names")
for name in clump/bin/clump clump/lib/libclump.so.1 clump/include/clump.h clump/_native.abi3.so; do
    grep -q "^$name " "$folder/names" || { echo "the wheel of the sdist has no $name"; exit 1; }
done

arm=aarch64-unknown-linux-gnu
# By zig for the C library of 2018 where that is here, and else by the C compiler for ARM.
tag=linux
if "$python" -m ziglang version >/dev/null 2>&1 && command -v cargo-zigbuild >/dev/null; then
    export CLUMP_PYTHON_MANYLINUX=2_28
    tag=manylinux_2_28
else
    echo "SKIPPED the wheel for ARM's manylinux: no zig here (pip install ziglang cargo-zigbuild)"
fi
if [ $tag = linux ] && ! command -v aarch64-linux-gnu-gcc >/dev/null ||
    ! rustup target list --installed | grep -q $arm; then
    echo "SKIPPED the wheel for ARM: rustup target add $arm; apt-get install gcc-aarch64-linux-gnu"
    exit 0
fi
CLUMP_PYTHON_TARGET=$arm CARGO_TARGET_DIR=$target/python-elsewhere wheel "$folder/arm" "$tree/python"
case $(echo "$folder"/arm/*) in
    *cp310-abi3-"$tag"_aarch64.whl) ;;
    *) echo "not a wheel for ARM: $(ls "$folder/arm")"; exit 1 ;;
esac
"$python" -m zipfile -e "$folder"/arm/*.whl "$folder/unpacked"
for file in bin/clump lib/libclump.so.1 _native.abi3.so; do
    readelf -h "$folder/unpacked/clump/$file" | grep -q AArch64 ||
        { echo "$file is not for ARM"; exit 1; }
    newest=$(readelf -V "$folder/unpacked/clump/$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    echo "$file for ARM needs $newest"
    [ $tag = linux ] ||
        [ "$(printf 'GLIBC_2.28\n%s\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] ||
        { echo "$file needs a newer C library than the wheel's name says"; exit 1; }
done
if ! command -v qemu-aarch64 >/dev/null || ! [ -d /usr/aarch64-linux-gnu/lib ]; then
    echo "SKIPPED starting the wheel for ARM: apt-get install qemu-user libc6-arm64-cross"
    exit 0
fi
chmod +x "$folder/unpacked/clump/bin/clump"
qemu-aarch64 -L /usr/aarch64-linux-gnu "$folder/unpacked/clump/bin/clump" --version

# A Python for ARM, as Debian's packages have it, in a folder of its own.
debian=$folder/debian
mkdir -p "$debian/state/lists/partial" "$debian/cache/archives/partial" "$debian/arm"
: >"$debian/state/status"
of_arm() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$debian/state" -o Dir::State::status="$debian/state/status" \
        -o Dir::Cache="$debian/cache" -o APT::Sandbox::User=root "$@"
}
# shellcheck disable=SC2046
if ! { of_arm update && cd "$debian" && of_arm download libc6 libgcc-s1 zlib1g libexpat1 \
    $(of_arm -s install python3-minimal libpython3-stdlib |
        sed -n 's/^Inst \([a-z]*python3\.[0-9]*[a-z-]*\) .*/\1/p'); } >/dev/null 2>&1; then
    echo "SKIPPED importing under QEMU: Debian's Python for arm64 cannot be fetched"
    exit 0
fi
for package in "$debian"/*.deb; do dpkg-deb -x "$package" "$debian/arm"; done
own=$(ls "$debian"/arm/usr/bin/python3.* | head -n 1)
PYTHONHOME=$debian/arm/usr PYTHONPATH=$folder/unpacked QEMU_LD_PREFIX=$debian/arm \
    qemu-aarch64 -L "$debian/arm" "$own" -c '
import platform, clump
assert platform.machine() == "aarch64"
world = clump.world()
assert world.allreduce(5) == 5
print("imported on", platform.machine(), "by Python", platform.python_version())'
