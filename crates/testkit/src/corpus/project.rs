//! What agents work on: a project with its names and its files.
//!
//! A file has the same lines whenever it is read, as files do: what is read twice is recorded
//! twice with the same bytes, and what is edited was read before.

use super::World;
use super::language::Language;
use super::random::Random;
use super::template::fill_with;

pub(super) struct Project {
    pub(super) name: String,
    identifiers: Vec<String>,
    files: Vec<SourceFile>,
}

pub(super) struct SourceFile {
    /// Relative to the project.
    pub(super) path: String,
    pub(super) lines: u64,
    language: &'static Programming,
    random: Random,
}

/// How code looks in one language.
struct Programming {
    extension: &'static str,
    indent: &'static str,
    lines: &'static [&'static str],
}

const IDENTIFIERS: usize = 480;
const FILES: u64 = 160;

/// Names one file uses: few, and the same ones again and again.
const FILE_IDENTIFIERS: usize = 28;

const LANGUAGES: &[&Programming] = &[
    &Programming {
        extension: "rs",
        indent: "    ",
        lines: &[
            "let $i = self.$i.get(&$i)?;",
            "let mut $i = Vec::with_capacity($i.len());",
            "if $i.is_empty() {",
            "    return Err($tError::Missing { $i: $i.clone() });",
            "}",
            "",
            "pub fn $i(&self, $i: &$t) -> Result<$t, $tError> {",
            "/// Returns the $w of the $w, or $w if there is none.",
            "match $i.$i() {",
            "Some($i) => $i.push($i),",
            "None => continue,",
            "use crate::$i::{$t, $t};",
            "assert_eq!($i.$i(), $n);",
            "for $i in &self.$i {",
            "#[derive(Debug, Clone, PartialEq)]",
            "pub struct $t {",
            "    $i: Option<$t>,",
            "// The $w is $w here, because $w $w may be $w.",
            "self.$i.insert($i, $t::new($n));",
        ],
    },
    &Programming {
        extension: "ts",
        indent: "  ",
        lines: &[
            "const $i = await this.$i($i);",
            "if (!$i) return null;",
            "export async function $i($i: $t): Promise<$t> {",
            "import { $t, $i } from './$i';",
            "return $i.map(($i) => $i.$i);",
            "}",
            "",
            "interface $t {",
            "  $i?: string;",
            "// $w the $w when $w is not $w",
            "expect($i.$i).toEqual({ $i: $n });",
            "throw new Error('$w $w: ' + $i);",
        ],
    },
    &Programming {
        extension: "py",
        indent: "    ",
        lines: &[
            "def $i(self, $i: $t, $i=None):",
            "    \"\"\"Return the $w of $w.\"\"\"",
            "$i = self.$i[\"$i\"]",
            "if $i is None:",
            "    raise ValueError(f\"$w $w: {$i}\")",
            "from $i.$i import $t",
            "return [$i for $i in $i if $i.$i]",
            "",
            "assert $i($n) == $n",
            "# $w $w until the $w is $w",
            "with open($i) as $i:",
        ],
    },
    &Programming {
        extension: "go",
        indent: "\t",
        lines: &[
            "func (s *$t) $t(ctx context.Context, $i string) error {",
            "if err != nil {",
            "\treturn fmt.Errorf(\"$w $w: %w\", err)",
            "}",
            "$i, err := s.$i.$t(ctx, $i)",
            "",
            "for _, $i := range $i {",
            "type $t struct {",
            "\t$t *$t `json:\"$i\"`",
            "// $t is the $w of a $w.",
        ],
    },
];

const FOLDERS: &[&str] = &["src", "tests", "crates", "lib", "internal", "pkg", "app"];

impl Project {
    pub(super) fn new(mut random: Random, language: &Language) -> Project {
        let word = |random: &mut Random| language.unusual_word(random).to_owned();
        let identifiers: Vec<String> = (0..IDENTIFIERS)
            .map(|_| {
                let parts = random.between(1, 3);
                let parts: Vec<String> = (0..parts).map(|_| word(&mut random)).collect();
                parts.join("_")
            })
            .collect();
        let main_language = random.below(LANGUAGES.len() as u64) as usize;
        let files = (0..FILES)
            .map(|number| {
                // A stream for each file: its lines stay the same in whatever order files are read.
                let mut random = random.branch(number);
                let foreign = random.below(LANGUAGES.len() as u64) as usize;
                let language = LANGUAGES[if random.one_in(6) { foreign } else { main_language }];
                let folder = random.pick_one(FOLDERS);
                let name = &identifiers[random.below(IDENTIFIERS as u64) as usize];
                // From the first names only, so that files share folders.
                let module = &identifiers[random.pick_rank(40)];
                let path = format!("{folder}/{module}/{name}.{}", language.extension);
                SourceFile { path, lines: random.between(40, 1_400), language, random }
            })
            .collect();
        let name = format!("{}-{}", word(&mut random), word(&mut random));
        Project { name, identifiers, files }
    }

    pub(super) fn folder(&self) -> String {
        format!("/home/dev/{}", self.name)
    }

    /// A name of the project, the well-known ones more often.
    pub(super) fn identifier(&self, random: &mut Random) -> &str {
        &self.identifiers[random.pick_rank(IDENTIFIERS)]
    }

    pub(super) fn pick_file(&self, random: &mut Random) -> &SourceFile {
        &self.files[random.pick_rank(FILES as usize)]
    }

    /// Appends a line of a file, the same one every time.
    pub(super) fn push_line(
        &self,
        world: &World,
        file: &SourceFile,
        number: u64,
        text: &mut String,
    ) {
        // The line follows from the file and the number alone, so it is the same each time.
        let mut random = file.random.branch(number);
        let line = random.pick_one(file.language.lines);
        if !line.is_empty() {
            // Depth changes slowly from line to line.
            for _ in 0..file.random.branch((1 << 32) | (number / 6)).below(4) {
                text.push_str(file.language.indent);
            }
        }
        let mut identifier = |random: &mut Random| {
            let place = random.pick_rank(FILE_IDENTIFIERS) as u64;
            // Bits 32 and 33 keep the branches for depth and names apart from those for lines.
            let index = file.random.branch((1 << 33) | place).below(IDENTIFIERS as u64);
            self.identifiers[index as usize].as_str()
        };
        fill_with(line, &mut random, world, self, &mut identifier, text);
    }
}
