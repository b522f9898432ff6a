#!/bin/sh
# Interpreters that this machine's distribution does not have: Debian sid's, in a tree of its own.
#
#   scripts/sid_chroot.sh                     make the tree if need be, print its folder
#   scripts/sid_chroot.sh --full              the same with debug builds, headers and debug files,
#                                             which scripts/gen_layouts.py needs
#   scripts/sid_chroot.sh [--full] CMD ARG... run CMD inside, with a /proc of its own
#
# Needs root and the package debootstrap. ENVPROBE_CACHE says where trees are kept
# (default ~/.cache/envprobe). A tree with a marker is complete and is used as it is.
set -eu

cache=${ENVPROBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/envprobe}
tree=$cache/sid
packages=python3.14,python3.15
if [ "${1:-}" = --full ]; then
    shift
    tree=$cache/sid-full
    for version in 3.13 3.14 3.15; do
        packages=$packages,python$version-dbg,libpython$version-dev
    done
fi
marker=$tree/.envprobe-$(printf %s "$packages" | cksum | cut -d' ' -f1)

fail() {
    printf 'sid_chroot.sh: %s\n' "$*" >&2
    exit 3
}

make_tree() {
    command -v debootstrap >/dev/null || fail "install the package debootstrap"
    [ "$(id -u)" = 0 ] || fail "run as root"
    rm -rf --one-file-system "$tree.new" "$tree"
    log=$cache/$(basename "$tree").log
    # What debootstrap mounts is seen by it alone, so that nothing stays mounted if it is killed.
    unshare --mount --propagation private \
        debootstrap --force-check-gpg --variant=minbase --include="$packages" \
        sid "$tree.new" >"$log" 2>&1 || explain
    rm -rf "$tree.new/var/cache/apt/archives" "$tree.new/var/lib/apt/lists"
    touch "$tree.new/$(basename "$marker")"
    mv "$tree.new" "$tree"
}

# Say why debootstrap failed; its own words are above.
explain() {
    tail -n 20 "$log" >&2
    if grep -q 'Failed getting release file' "$log"; then
        fail "no mirror of Debian sid can be reached from here"
    elif grep -q "Couldn't find these debs" "$log"; then
        fail "Debian sid no longer has some of $packages: name others in this script"
    fi
    fail "the tree of Debian sid could not be made; all that debootstrap said: $log"
}

mkdir -p "$cache"
exec 9>"$tree.lock"
flock 9
[ -e "$marker" ] || make_tree
flock -u 9
exec 9>&-

if [ $# = 0 ]; then
    echo "$tree"
    exit 0
fi
# The mount is seen by the command alone and goes away with it.
exec unshare --mount --propagation private \
    sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$tree" "$@"
