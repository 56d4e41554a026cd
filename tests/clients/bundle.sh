#!/usr/bin/env bash
# Checks the MCP bundle with the official tool for bundles: bundle.sh BINARY FOLDER, where
# FOLDER holds `mcpb` and a `node` that is new enough for it.
set -u
cd "$(dirname "$0")/../.." || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch PATH=$2:$PATH ZSH_TOOL_STATE_DIR=$scratch/state
out=$scratch/out
unpacked=$scratch/unpacked
# Without what debuggers read, which takes long to compress.
binary=$scratch/zsh-tool
strip -o "$binary" "$1"
passed=0 failed=0

check() { # check NAME COMMAND...: the command's output is shown when it fails.
    if "${@:2}" >"$scratch/shown" 2>&1 </dev/null; then
        passed=$((passed + 1)) && echo "ok    $1"
    else
        failed=$((failed + 1)) && echo "FAIL  $1"
        cut -c1-2000 "$scratch/shown" | sed 's/^/      /'
    fi
}
# The rules of the registry's schema that the entry could break.
registry_takes() {
    jq -e '(.name | test("^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"))
        and (.title | length >= 1 and length <= 100)
        and (.description | length >= 1 and length <= 100)
        and (.version | test("^[0-9]+\\.[0-9]+\\.[0-9]+$"))
        and all(.packages[]?; .registryType == "mcpb" and .transport == {"type": "stdio"}
            and (.identifier | startswith("https://")) and (.fileSha256 | test("^[a-f0-9]{64}$")))
        and (keys - ["$schema", "name", "title", "description", "version", "packages"] == [])' "$1"
}
names_the_bundle() {
    [ "$(jq -r '.packages[0].fileSha256' "$out/server.json")" = "$(sha256sum <"$bundle" | cut -d' ' -f1)" ] &&
        [ "$(jq -r '.packages[0].identifier' "$out/server.json")" = "https://example.com/v0/${bundle##*/}" ]
}
starts_as_the_manifest_says() {
    local command placeholder=\$\{__dirname\}
    command=$(jq -r '.server.mcp_config.command' "$unpacked/manifest.json")
    "${command/$placeholder/$unpacked}" --version | grep -q '^zsh-tool '
}
lists_its_tools() { jq -e '[.tools[].name] | contains(["zsh", "zsh_poll", "zsh_kill"])' "$unpacked/manifest.json"; }
refuses() { # refuses FILE
    ! scripts/bundle "$1" "$scratch/none" && [ ! -e "$scratch/none" ]
}

check "the bundle is made" scripts/bundle "$binary" "$out" https://example.com/v0/
bundle=$(echo "$out"/*.mcpb)
check "mcpb unpacks it" mcpb unpack "$bundle" "$unpacked"
check "its manifest is valid" mcpb validate "$unpacked/manifest.json"
check "mcpb packs the same files" mcpb pack "$unpacked" "$scratch/again.mcpb"
check "its binary is the one that was given" cmp "$binary" "$unpacked/server/zsh-tool"
check "and starts as the manifest says" starts_as_the_manifest_says
check "its manifest lists the tools" lists_its_tools
check "the registry's entry keeps to the schema" registry_takes "$out/server.json"
check "and names the bundle and its hash" names_the_bundle
check "the same input gives the same bytes" scripts/bundle "$binary" "$scratch/twice" https://example.com/v0/
check "… of the bundle" cmp "$bundle" "$scratch/twice/${bundle##*/}"
check "without a URL the entry names no package" scripts/bundle "$binary" "$scratch/bare"
check "… and keeps to the schema" registry_takes "$scratch/bare/server.json"
check "what is no such program is refused" refuses scripts/manopt

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
