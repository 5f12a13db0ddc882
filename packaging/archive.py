"""The archive that `install.sh` and Homebrew take the program from."""
import files

TEXTS = ("README.md", "CHANGELOG.md", *files.LICENCES)


def make(contents, folder):
    top = f"hansard-{contents.version}-{contents.target}"
    members = {f"{top}/hansard": contents.binary}
    members.update({f"{top}/{name}": contents.text(name) for name in TEXTS})
    for shell, name in files.COMPLETIONS.items():
        members[f"{top}/completions/{name}"] = contents.completions[shell]
    for name, page in contents.man_pages.items():
        members[f"{top}/man/{name}"] = page
    return [files.tar_gz(folder / f"{top}.tar.gz", members, contents.time)]
