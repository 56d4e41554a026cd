"""What of secrets reaches the history, and what of harmless texts does not: both planted in command
lines and in output, with new random values in each run. The files of the output itself are kept as
they are, for the user alone; the history is to be without secrets.
"""

import glob
import os
import random
import re
import shlex
import sqlite3
import string

from client import BenchFailed, Server
from figures import Figure

# Each text is planted with so many values.
DRAWS = 3
CLASSES = {
    "A": string.ascii_letters + string.digits,
    "B": string.ascii_letters + string.digits + "+/",
    "D": string.digits,
    "H": string.digits + "abcdef",
    "L": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + "234567",
}
# `<A20>` stands for 20 random characters of the class A, outside of « and » for harmless ones. What
# is between them must not be kept. The shapes are those that the services document.
SECRETS = [
    # Services' own tokens, wherever they are.
    "deploy with «AKIA<U16>» now",
    "aws configure set aws_secret_access_key «<B40>»",
    "token is «ghp_<A36>»",
    "git clone https://x-access-token:«ghs_<A36>»@github.com/some/repo",
    "«github_pat_<A22>_<A59>»",
    "curl -H 'PRIVATE-TOKEN: «glpat-<A20>»' https://gitlab.example/api/v4/projects",
    "«xoxb-<D12>-<D12>-<A24>»",
    "curl -X POST https://hooks.slack.com/services/T<U8>/B<U8>/«<A24>»",
    "STRIPE=«sk_live_<A24>»",
    "OPENAI_API_KEY=«sk-proj-<A48>» python3 run.py",
    "export ANTHROPIC_API_KEY=«sk-ant-api03-<A93>AA»",
    "curl 'https://maps.googleapis.com/maps/api/geocode/json?key=«AIza<A35>»'",
    "«ya29.<A64>»",
    "//registry.npmjs.org/:_authToken=«npm_<A36>»",
    "twine upload -u __token__ -p «pypi-AgEIcHlwaS5vcmc<A60>» dist/pkg.whl",
    "«hf_<A34>»",
    "«dckr_pat_<A27>»",
    "VAULT_TOKEN=«hvs.<A24>» vault read secret/app",
    "«SG.<A22>.<A43>»",
    "curl https://api.telegram.org/bot<D10>:«AA<A33>»/getMe",
    "«AGE-SECRET-KEY-1<U58>»",
    "tailscale up --authkey «tskey-auth-<A12>CNTRL-<A32>»",
    "«shpat_<H32>»",
    "DATABRICKS=«dapi<H32>»",
    "«glc_<A40>»",
    "«ATATT3<A100>»",
    "«xai-<A80>»",
    "«gsk_<A52>»",
    "«r8_<A37>»",
    "«sntrys_<A80>»",
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=«<B86>==»;EndpointSuffix=core.windows.net",
    # What is said by the name beside it.
    "DB_PASSWORD=«<A14>» ./migrate",
    "export SMTP_PASS='«<A14>»'",
    "password: «<A14>»",
    '{"client_secret": "«<A32>»", "scope": "all"}',
    "api_key = \"«<A32>»\"",
    "<password>«<A14>»</password>",
    "define('DB_PASSWORD', '«<A14>»');",
    "SECRET_KEY = 'django-«<A50>»'",
    "machine api.example.org login me password «<A14>»",
    "db.example.org:5432:app:me:«<A14>»",
    "root:«$6$<A16>$<A86>»:19700:0:99999:7:::",
    "CREATE USER app IDENTIFIED BY '«<A14>»'",
    "ALTER ROLE app WITH PASSWORD '«<A14>»'",
    # Options, headers and addresses.
    "curl -u me:«<A14>» https://example.org/",
    "curl -H 'Authorization: Bearer «<A40>»' https://example.org/",
    "curl -H 'X-Api-Key: «<A32>»' https://example.org/",
    "Set-Cookie: session=«<A40>»; HttpOnly",
    "wget --password=«<A14>» https://example.org/file",
    "mysql -u me -p«<A14>» app",
    "PGPASSWORD=«<A14>» psql -h db.example.org app",
    "sshpass -p «<A14>» ssh me@example.org",
    "docker login -u me -p «<A14>» registry.example.org",
    "redis-cli -a «<A14>» ping",
    "postgres://me:«<A14>»@db.example.org/app",
    "mongodb+srv://me:«<A14>»@cluster.example.org/app",
    "openssl rsa -in key.pem -passin pass:«<A14>»",
    "ansible-vault encrypt_string --vault-password «<A14>»",
    "https://b.s3.amazonaws.com/o?X-Amz-Date=20260101T000000Z&X-Amz-Signature=«<H64>»",
    "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIi<A40>.<A43>»",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n«<B70>»\n«<B70>»\n-----END OPENSSH PRIVATE KEY-----",
]
HARMLESS = [
    "commit <H40>",
    "<H7> Fix the parser",
    "<H64>  dist/app.tar.gz",
    "MD5 (app.iso) = <H32>",
    "task <H8>-<H4>-4<H3>-a<H3>-<H12> is queued",
    "sha256:<H64>",
    "FROM debian@sha256:<H64>",
    '"integrity": "sha512-<B86>=="',
    'checksum = "<H64>"',
    "<img src=\"data:image/png;base64,iVBORw0KGgo<B80>=\">",
    "iVBORw0KGgoAAAANSUhEUgAA<B90>",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI<B43> me@example",
    "-----BEGIN CERTIFICATE-----\nMIIB<B60>\n-----END CERTIFICATE-----",
    "SHA256:<B43> me@example (ED25519)",
    "target/release/deps/libserde-<H16>.rlib",
    "dist/assets/main.<H8>.js  142 kB",
    "/nix/store/<L32>-hello-2.12/bin/hello",
    "/home/me/.cache/pip/wheels/<H2>/<H2>/<H60>/pkg.whl",
    "https://example.org/posts/<L12>?page=<D2>&sort=name",
    "etag: \"<H32>\"",
    "0000<H4>: <H4> <H4> <H4> <H4> <H4> <H4> <H4> <H4>",
    "request id <H16> took <D3> ms",
    "index <H7>..<H7> 100644",
    "container <H12> started",
    "fe80::<H4>:<H4>:<H4>:<H4>",
    "max_tokens: <D4>",
    "tokens=<D5> tokens_per_second=<D2>",
    "test_password_is_checked PASSED",
    "password: null",
    "Forgot your password?",
    "keyword=<L8> monkey=<D3>",
    "KEYMAP=de-latin1",
    "ssh -o PubkeyAuthentication=no host",
    "password_file=/run/secrets/db",
    "token_url=https://auth.example.org/token",
    "def secret_santa(names):",
    "GET /api/keys 200 <D2>ms",
    "Author: Jane Doe <jane@example.org>",
    "pip install tokenizers==0.<D2>.1",
    "AWS_REGION=eu-central-1 AWS_PROFILE=work make",
]


def filled(text):
    """The text with random characters in place of what stands for them."""

    def drawn(match):
        return "".join(random.choices(CLASSES[match[1]], k=int(match[2])))

    return re.sub(r"<([A-Z])(\d+)>", drawn, text)


def plant(server, text):
    """Runs a command that has the text in it and runs none of it, and one that prints it."""
    # What follows the end of a script is read by nobody but zsh-tool.
    server.call("zsh", command=f"exit\n{text}")
    path = os.path.join(server.scratch.name, "text")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    server.call("zsh", command=f"cat {shlex.quote(path)}")


def history(server):
    """The rows that a server has written, each with the command and what is kept of its output."""
    with sqlite3.connect(os.path.join(server.environment["ZSH_TOOL_STATE_DIR"], "alan.db")) as database:
        query = "SELECT command_preview, output_snippet, error_snippet FROM observations"
        return ["\n".join(filter(None, row)) for row in database.execute(query)]


def database_bytes(server):
    """All of its database, in whatever table a text may be."""
    found = b""
    for path in glob.glob(os.path.join(server.environment["ZSH_TOOL_STATE_DIR"], "alan.db*")):
        with open(path, "rb") as file:
            found += file.read()
    return found


def a_part(secret):
    """Some bytes of it that no other text has, so that one that is kept in part counts too."""
    return secret[len(secret) // 2 :][:12].encode()


def redaction(binary):
    planted = [filled(text) for text in SECRETS for _ in range(DRAWS)]
    harmless = [filled(text) for text in HARMLESS for _ in range(DRAWS)]
    with Server(binary) as server:
        for text in planted:
            plant(server, re.sub("[«»]", "", text))
        server.end()
        written = database_bytes(server)
    with Server(binary) as server:
        for text in harmless:
            plant(server, text)
        server.end()
        rows = history(server)
    # Few snippets without a row would make the figure of harmless texts look better than it is.
    if len(rows) != 2 * len(harmless):
        raise BenchFailed(f"{len(rows)} rows were written of {2 * len(harmless)} commands")
    lost = [text for text in planted if any(a_part(secret) in written for secret in re.findall("«(.*?)»", text))]
    touched = [row for row in rows if "[redacted]" in row]
    shapes = len(SECRETS), len(HARMLESS)
    return [
        Figure(
            f"secrets in clear in the history, of {len(planted)} in {shapes[0]} shapes", len(lost), "", 0, 0, shown(lost),
            "each in a command line and in output, with new random values in each run",
        ),
        Figure(
            f"harmless texts that are redacted, of {len(rows)} in {shapes[1]} shapes", 100 * len(touched) / len(rows), "%", 2, 0,
            shown(touched), "hashes, identifiers, paths, images, public keys and words that only look like names of secrets",
        ),
    ]


def shown(texts):
    """The kinds of texts, in a few words each."""
    return "; ".join(sorted({" ".join(text.split())[:40] for text in texts}))


MEASUREMENTS = [redaction]
