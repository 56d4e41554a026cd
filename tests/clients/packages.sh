#!/usr/bin/env bash
# Checks the packages of scripts/package, offline: packages.sh BINARY FOLDER CLIENTS, where
# FOLDER holds `mcpb` and a `node` that is new enough for it, and CLIENTS is where
# tests/clients/run installed the SDKs. Each package is installed into a scratch prefix,
# driven over MCP and removed.
set -u
tests=$(cd "$(dirname "$0")" && pwd)
cd "$(dirname "$0")/../.." || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
programs=$2 clients=$3
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export HOME=$scratch PATH=$programs:$PATH ZSH_TOOL_STATE_DIR=$scratch/state npm_config_offline=true
out=$scratch/out
unpacked=$scratch/unpacked
url=https://example.com/v0
target=$(uname -m)-unknown-linux-musl
# Seconds for the first answer of what is installed.
FIRST_ANSWER=1
# Without what debuggers read, which takes long to compress.
binary=$scratch/zsh-tool
strip -o "$binary" "$1"
# shellcheck source=/dev/null
. "$tests/check.sh"
# The rules of the registry's schema that the entry could break.
registry_takes() {
    jq -e '(.name | test("^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"))
        and (.title | length >= 1 and length <= 100)
        and (.description | length >= 1 and length <= 100)
        and (.version | test("^[0-9]+\\.[0-9]+\\.[0-9]+$"))
        and all(.packages[]; .transport == {"type": "stdio"} and
            if .registryType == "mcpb"
            then (.identifier | startswith("https://")) and (.fileSha256 | test("^[a-f0-9]{64}$"))
            else (.registryType | IN("npm", "pypi")) and .identifier == "zsh-tool" and .version and
                all(.packageArguments[]; .type == "positional" and .value) end)
        and (keys - ["$schema", "name", "title", "description", "version", "packages"] == [])' "$1"
}
names_the_bundle() {
    jq -e --arg url "$url/${bundle##*/}" --arg hash "$(sha256sum <"$bundle" | cut -d' ' -f1)" \
        'any(.packages[]; .identifier == $url and .fileSha256 == $hash)' "$out/server.json"
}
starts_as_the_manifest_says() {
    local command placeholder=\$\{__dirname\}
    command=$(jq -r '.server.mcp_config.command' "$unpacked/manifest.json")
    "${command/$placeholder/$unpacked}" --version | grep -q '^zsh-tool '
}
lists_its_tools() { jq -e '[.tools[].name] | contains(["zsh", "zsh_poll", "zsh_kill"])' "$unpacked/manifest.json"; }
refuses() { # refuses FILE
    ! scripts/package "$scratch/none" "$target=$1" && [ ! -e "$scratch/none" ]
}
# Programs of macOS that are long enough to be told apart; none is run.
printf '\317\372\355\376\014\0\0\001\0\0\0\0arm' >"$scratch/arm"
printf '\317\372\355\376\007\0\0\001\003\0\0\0intel' >"$scratch/intel"
package() { # package FOLDER
    scripts/package --url "$url/" "$1" "$target=$binary" \
        aarch64-apple-darwin="$scratch/arm" x86_64-apple-darwin="$scratch/intel"
}
holds_both() { # Each part begins at a multiple of 2^14.
    local both=$scratch/universal
    tar -xOzf "$out"/zsh-tool-*-universal-apple-darwin.tar.gz --wildcards '*/bin/*/zsh-tool' >"$both"
    tail -c +16385 "$both" | head -c "$(stat -c %s "$scratch/arm")" | cmp - "$scratch/arm" &&
        tail -c +32769 "$both" | cmp - "$scratch/intel"
}
matches_its_hashes() {
    local made=("$out"/*)
    (cd "$out" && sha256sum --check --strict SHA256SUMS) && [ "$(wc -l <"$out/SHA256SUMS")" = $((${#made[@]} - 1)) ]
}
serves_as_a_plugin() {
    mkdir "$scratch/plugin"
    tar -xzf "$out"/zsh-tool-*-"$target".tar.gz -C "$scratch/plugin" --strip-components 1
    "$scratch/plugin/scripts/run-mcp.sh" --version
}
formula_names() { grep -qF "$(sha256sum <"$1" | cut -d' ' -f1)" "$out/zsh-tool.rb" && grep -qF "\"$url/${1##*/}\"" "$out/zsh-tool.rb"; }
# What cargo-binstall makes of the templates in Cargo.toml.
binstall_finds() {
    local template=$scratch/binstall archive program
    cargo metadata --no-deps --format-version 1 >"$scratch/metadata" || return
    jq -r --arg target "$target" '.packages[0] | . as $p | .metadata.binstall | .["pkg-url"], .["bin-dir"]
        | gsub("{ repo }"; "") | gsub("{ name }"; $p.name) | gsub("{ version }"; $p.version)
        | gsub("{ target }"; $target) | gsub("{ bin }"; $p.name)' "$scratch/metadata" >"$template"
    { read -r archive && read -r program; } <"$template"
    tar -tzf "$out/${archive##*/}" "$program"
}
names_every_crate() { jq -e '(.components | length > 50) and all(.components[]; .licenses[0].expression and .hashes)' "$out"/*.cdx.json; }

check "the packages are made" package "$out"
bundle=$(echo "$out"/*-linux-*.mcpb)
check "mcpb unpacks the bundle" mcpb unpack "$bundle" "$unpacked"
check "its manifest is valid" mcpb validate "$unpacked/manifest.json"
check "mcpb packs the same files" mcpb pack "$unpacked" "$scratch/again.mcpb"
check "its binary is the one that was given" cmp "$binary" "$unpacked/server/zsh-tool"
check "and starts as the manifest says" starts_as_the_manifest_says
check "its manifest lists the tools" lists_its_tools
check "the registry's entry keeps to the schema" registry_takes "$out/server.json"
check "and names the bundle and its hash" names_the_bundle
check "the same input gives the same bytes" package "$scratch/twice"
check "… in every file" diff -r "$out" "$scratch/twice"
check "what is no such program is refused" refuses scripts/manopt
check "and one for another platform" refuses "$scratch/arm"
check "SHA256SUMS names every file" matches_its_hashes
check "the universal binary holds both" holds_both
check "the archive is a plugin that starts" serves_as_a_plugin
check "the formula names the archive and its hash" formula_names "$(echo "$out"/zsh-tool-*-"$target".tar.gz)"
check "cargo-binstall finds the binary" binstall_finds
check "the bill of materials names every crate" names_every_crate

# The three ways to install, with one SDK each.
npm_install() { (mkdir "$scratch/npm" && cd "$scratch/npm" && npm install --no-audit --no-fund "$out"/zsh-tool-linux-*.tgz "$out"/zsh-tool-[0-9].[0-9].[0-9].tgz); }
npm_remove() { (cd "$scratch/npm" && npm uninstall --no-audit --no-fund zsh-tool zsh-tool-linux-x64 zsh-tool-linux-arm64); }
pip() { "$clients/python/bin/pip" --disable-pip-version-check --python "$scratch/venv/bin/python" "$@"; }
pip_install() { python3 -m venv --without-pip "$scratch/venv" && pip install --no-index --find-links "$out" zsh-tool; }
debian() { # debian ARGUMENT...: dpkg with a root of its own.
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(unshare --map-root-user)
    "${as_root[@]}" dpkg --root="$scratch/root" --log="$scratch/dpkg.log" "$@"
}
debian_install() { mkdir -p "$scratch"/root/var/lib/dpkg/{info,updates} && : >"$scratch/root/var/lib/dpkg/status" && debian --install "$out"/*.deb; }
no_file_left() { ! find "$1" -not -type d -name '*zsh-tool*' -not -path '*/var/lib/dpkg/*' | grep .; }
says_what_is_missing() { ! "$1" --version && grep -q 'the npm package zsh-tool-linux-.* is missing' "$scratch/checked"; }
# GNU tools then read their arguments as those of macOS do: no option after an operand.
launched() { # launched NAME PROGRAM [ARGUMENT...]
    POSIXLY_CORRECT=1 "$programs/node" tests/clients/launcher.mjs "$1" "$FIRST_ANSWER" "${@:2}"
}
# Scripts for any sh: dash, and bash, which is macOS's.
starts_in_every_shell() { # starts_in_every_shell SCRIPT
    local shell
    for shell in dash 'bash --posix'; do
        # shellcheck disable=SC2086  # Two words.
        POSIXLY_CORRECT=1 $shell "$1" --version | grep '^zsh-tool ' || return
    done
}
names_the_server() { jq -e --slurpfile entry "$out/server.json" '.mcpName == $entry[0].name' "$1"; }
sdk() { "$programs/node" tests/clients/typescript_sdk.mjs "$1" "$clients/npm" 1; }

installed=$scratch/npm/node_modules/.bin/zsh-tool
check "npm installs it" npm_install
check "npm: the package names the server" names_the_server "$scratch/npm/node_modules/zsh-tool/package.json"
check "npm: the launcher runs in every shell" starts_in_every_shell "$installed"
check "… as does the plugin's start script" starts_in_every_shell "$scratch/plugin/scripts/run-mcp.sh"
check "npm: everything is handed through, nothing is left" launched npm "$installed"
check "npx: the same" launched npx npx --prefix "$scratch/npm" zsh-tool
check "npm: the TypeScript SDK's session" sdk "$installed"
rm -rf "$scratch"/npm/node_modules/zsh-tool-linux-*
check "without the binary's package the launcher names it" says_what_is_missing "$installed"
check "npm removes it" npm_remove
check "… and leaves nothing" no_file_left "$scratch/npm/node_modules"

installed=$scratch/venv/bin/zsh-tool
check "pip installs it" pip_install
check "pip: the metadata names the server" grep -rq '^<!-- mcp-name: io.github.*/zsh-tool -->' "$scratch/venv/lib"
check "pip: everything is handed through, nothing is left" launched pip "$installed"
check "pip: the Python SDK's session" "$clients/python/bin/python" tests/clients/python_sdk.py "$installed" legacy
check "pip removes it" pip uninstall --yes zsh-tool
check "… and leaves nothing" no_file_left "$scratch/venv"

installed=$scratch/root/usr/bin/zsh-tool
check "dpkg installs it" debian_install
check "dpkg: nothing is left" launched dpkg "$installed"
check "dpkg: the Python SDK's session" "$clients/python/bin/python" tests/clients/python_sdk.py "$installed" auto
check "dpkg removes it" debian --remove zsh-tool
check "… and leaves nothing" no_file_left "$scratch/root"

conclude
