#!/bin/sh
# Installs Hansard from the archive of a release into your home. It asks nothing, needs no root and
# changes no file of your shell.
#
#   HANSARD_BASE   the address of the folder that SHA256SUMS and the archives are in
#   HANSARD_PREFIX where to install to [default: ~/.local]
set -eu

base=${HANSARD_BASE:-@BASE@}
prefix=${HANSARD_PREFIX:-$HOME/.local}

main() {
    [ -n "$base" ] || fail "HANSARD_BASE has to name the address of a release"
    target=$(platform)
    room=$(mktemp -d)
    trap 'rm -rf "$room"' EXIT
    download SHA256SUMS
    # The folder has one version; its archive for this platform is the one that is wanted.
    archive=$(sed -n "s/^[0-9a-f]\{64\}  \(hansard-[0-9][^ \/]*-$target\.tar\.gz\)\$/\1/p" \
        "$room/SHA256SUMS" | tail -n 1)
    [ -n "$archive" ] || fail "the release at $base has no archive for $target"
    download "$archive"
    verify "$archive"
    tar -xzf "$room/$archive" -C "$room"
    install_from "$room/${archive%.tar.gz}"
    echo "installed $("$prefix/bin/hansard" --version) as $prefix/bin/hansard"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "note: $prefix/bin is not in your PATH" ;;
    esac
}

platform() {
    case $(uname -s) in
    Linux) system=unknown-linux-gnu ;;
    Darwin) system=apple-darwin ;;
    *) fail "there is no program for $(uname -s)" ;;
    esac
    case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no program for $(uname -m)" ;;
    esac
    if [ "$system" = unknown-linux-gnu ] && ls /lib/ld-musl-* >/dev/null 2>&1; then
        # A program for glibc does not start there, and the error of the shell would say little.
        system=unknown-linux-musl
    fi
    echo "$machine-$system"
}

download() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$room/$1" "$base/$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document="$room/$1" "$base/$1"
    else
        fail "curl or wget is needed"
    fi || fail "cannot download $base/$1"
}

verify() {
    expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $1\$/\1/p" "$room/SHA256SUMS")
    if command -v sha256sum >/dev/null; then
        actual=$(sha256sum "$room/$1")
    else
        actual=$(shasum -a 256 "$room/$1")
    fi
    [ "${actual%% *}" = "$expected" ] || fail "$1 is damaged: its SHA-256 is not the published one"
}

install_from() {
    mkdir -p "$prefix/bin" "$prefix/share/man/man1" \
        "$prefix/share/bash-completion/completions" \
        "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
    # Beside it first: a program that runs cannot be written over, but it can be replaced.
    cp "$1/hansard" "$prefix/bin/.hansard.new"
    "$prefix/bin/.hansard.new" --version >/dev/null || {
        rm -f "$prefix/bin/.hansard.new"
        fail "the program does not run on this system"
    }
    mv -f "$prefix/bin/.hansard.new" "$prefix/bin/hansard"
    cp "$1"/man/*.1 "$prefix/share/man/man1/"
    cp "$1/completions/hansard.bash" "$prefix/share/bash-completion/completions/hansard"
    cp "$1/completions/_hansard" "$prefix/share/zsh/site-functions/_hansard"
    cp "$1/completions/hansard.fish" "$prefix/share/fish/vendor_completions.d/hansard.fish"
}

fail() {
    echo "error: $*" >&2
    exit 1
}

# Last, so that a script that was cut off on its way does nothing.
main "$@"
