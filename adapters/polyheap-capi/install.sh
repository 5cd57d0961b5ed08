#!/bin/sh
# Builds the C library and installs it: headers, the static and the shared library, the pkg-config file.
#
#   ./install.sh [--prefix DIR] [--libdir DIR] [--destdir DIR] [--profile PROFILE]
#
# The prefix is /usr/local, the libdir its lib, the profile release, unless told otherwise. DESTDIR is put
# in front of every path written, for packages. CARGO and CARGO_TARGET_DIR are heeded.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=/usr/local libdir= destdir=${DESTDIR:-} profile=release
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=$2 ;;
        --libdir) libdir=$2 ;;
        --destdir) destdir=$2 ;;
        --profile) profile=$2 ;;
        *) echo "install.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift 2
done
[ -n "$libdir" ] || libdir=$prefix/lib

cargo=${CARGO:-cargo}
manifest=$here/Cargo.toml
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$manifest" | head -n 1)
major=${version%%.*}
"$cargo" build --quiet --manifest-path "$manifest" --lib --profile "$profile"
target=${CARGO_TARGET_DIR:-$here/../../target}
case $profile in dev | test) folder=debug ;; *) folder=$profile ;; esac
built=$target/$folder

mkdir -p "$destdir$prefix/include" "$destdir$libdir/pkgconfig"
cp "$here/include/polyheap.h" "$here/include/polyheap.hpp" "$destdir$prefix/include/"
cp "$built/libpolyheap_capi.a" "$destdir$libdir/libpolyheap.a"

# What the static library needs of the system. It may not be unloaded either: see build.rs.
private='-Wl,-z,nodelete -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc'
if [ "$(uname -s)" = Darwin ]; then
    private='-lSystem -lc -lm'
    cp "$built/libpolyheap_capi.dylib" "$destdir$libdir/libpolyheap.dylib"
else
    cp "$built/libpolyheap_capi.so" "$destdir$libdir/libpolyheap.so.$version"
    ln -sf "libpolyheap.so.$version" "$destdir$libdir/libpolyheap.so.$major"
    ln -sf "libpolyheap.so.$major" "$destdir$libdir/libpolyheap.so"
fi
sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@VERSION@|$version|" \
    -e "s|@LIBS_PRIVATE@|$private|" "$here/polyheap.pc.in" > "$destdir$libdir/pkgconfig/polyheap.pc"
