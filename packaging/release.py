"""What is published beside the packages: the install script, the Homebrew formula, the sums."""
import hashlib
import pathlib
import re

HERE = pathlib.Path(__file__).parent
SUMS = "SHA256SUMS"

# Homebrew's words for the targets that it has.
BREW_BLOCKS = {
    "x86_64-unknown-linux-gnu": ("on_linux", "on_intel"),
    "aarch64-unknown-linux-gnu": ("on_linux", "on_arm"),
    "x86_64-apple-darwin": ("on_macos", "on_intel"),
    "aarch64-apple-darwin": ("on_macos", "on_arm"),
}


def write(contents, folder, base):
    script = (HERE / "install.sh").read_text()
    publish(folder / "install.sh", script.replace("@BASE@", base or ""), 0o755)
    publish(folder / "hansard.rb", formula(contents, folder, base), 0o644)
    rows = [f"{sha256(path)}  {path.name}\n" for path in published(contents, folder)]
    publish(folder / SUMS, "".join(rows), 0o644)


def published(contents, folder):
    """The files of this version; an older release may still be in the folder."""
    of_version = re.compile(rf".*[-_]{re.escape(contents.version)}[-_.].*|install\.sh|hansard\.rb")
    return sorted(path for path in folder.iterdir() if of_version.fullmatch(path.name))


def formula(contents, folder, base):
    address = f'"{base}"' if base else 'ENV.fetch("HOMEBREW_HANSARD_BASE")'
    blocks = []
    for target, (system, machine) in BREW_BLOCKS.items():
        path = folder / f"hansard-{contents.version}-{target}.tar.gz"
        if path.exists():
            blocks.append(
                f"  {system} do\n    {machine} do\n"
                f'      url "#{{BASE}}/{path.name}"\n      sha256 "{sha256(path)}"\n'
                "    end\n  end\n")
    text = (HERE / "hansard.rb").read_text()
    return (text.replace("@ADDRESS@", address).replace("@VERSION@", contents.version)
            .replace("  @ARCHIVES@\n", "\n".join(blocks)))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def publish(path, text, mode):
    path.write_text(text)
    path.chmod(mode)
