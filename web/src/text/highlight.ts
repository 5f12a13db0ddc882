// Code in colours: a rough reading that is right most of the time and never wrong about the text.
// One pass with one expression per family of languages.

export interface Token {
  /** `comment`, `string`, `number`, `keyword`, `added`, `removed`, `hunk`, or none. */
  kind: string | null;
  text: string;
}

/** Longer code is shown without colours. */
const CHARS_MAX = 40_000;

const WORDS: Record<string, string> = {
  c: "as async await break case catch class const continue crate default defer do dyn else enum export extends extern false final finally fn for from func function go if impl implements import in interface let loop match mod module move mut namespace new nil null of override package private protected pub public readonly ref return self Self static struct super switch template this throw throws trait true try type typedef typeof undefined union unsafe use using var virtual void where while yield int long float double bool boolean char string number usize u8 u16 u32 u64 i32 i64 f64 str String Vec Option Result",
  script: "and as assert async await begin break case class continue def del do done elif else elsif end ensure esac except export False fi finally for from function global if import in is lambda local module nil None nonlocal not or pass raise rescue return self then True try unless until when while with yield echo set fn let",
  sql: "select from where and or not in is null insert into values update set delete create table index view drop alter add column primary key foreign references join left right inner outer full on group by order having limit offset union all distinct as case when then else end begin commit rollback with exists between like asc desc true false default unique if",
};

const FAMILIES: Array<[string, RegExp]> = [
  ["diff", /^(?:diff|patch)$/],
  ["script", /^(?:py|python|rb|ruby|sh|bash|zsh|shell|console|fish|yaml|yml|toml|ini|make|makefile|dockerfile|r|perl|elixir|ex|nix|conf)$/],
  ["sql", /^(?:sql|sqlite|postgres|psql|mysql)$/],
  ["markup", /^(?:html|xml|svg|vue|svelte)$/],
  ["plain", /^(?:|text|txt|plain|log|output|md|markdown)$/],
];

const COMMON = String.raw`"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?`;
const NUMBER = String.raw`\b(?:0x[\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b`;

const EXPRESSIONS: Record<string, RegExp> = {
  c: new RegExp(String.raw`(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|("""[\s\S]*?(?:"""|$)|\`(?:[^\`\\]|\\.)*\`?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.){0,40}')|(${NUMBER})|([A-Za-z_$][\w$]*)`, "g"),
  script: new RegExp(String.raw`(#[^\n]*)|("""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|${COMMON})|(${NUMBER})|([A-Za-z_][\w-]*)`, "g"),
  sql: new RegExp(String.raw`(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(${COMMON})|(${NUMBER})|([A-Za-z_]\w*)`, "g"),
  markup: new RegExp(String.raw`(<!--[\s\S]*?(?:-->|$))|(${COMMON})|(&\w+;)|(<\/?[A-Za-z][\w-]*|\/?>)`, "g"),
};

const KEYWORDS = new Map(Object.entries(WORDS).map(([family, words]) => [family, new Set(words.split(" "))]));

export function highlight(code: string, language: string): Token[] {
  const family = FAMILIES.find(([, names]) => names.test(language))?.[0] ?? "c";
  if (family === "plain" || code.length > CHARS_MAX) return [{ kind: null, text: code }];
  if (family === "diff") return lines(code);
  const tokens: Token[] = [];
  let end = 0;
  for (const match of code.matchAll(EXPRESSIONS[family]!)) {
    if (match.index > end) tokens.push({ kind: null, text: code.slice(end, match.index) });
    tokens.push({ kind: kindOf(match, family), text: match[0] });
    end = match.index + match[0].length;
  }
  if (end < code.length) tokens.push({ kind: null, text: code.slice(end) });
  return merged(tokens);
}

function kindOf(match: RegExpMatchArray, family: string): string | null {
  if (match[1] !== undefined) return "comment";
  if (match[2] !== undefined) return "string";
  if (match[3] !== undefined) return "number";
  if (family === "markup") return "keyword";
  const word = family === "sql" ? match[0].toLowerCase() : match[0];
  return KEYWORDS.get(family)?.has(word) ? "keyword" : null;
}

function lines(code: string): Token[] {
  return code.split(/(?<=\n)/).map((text) => {
    const kind = text.startsWith("@@") ? "hunk" : /^\+(?!\+\+)/.test(text) ? "added" : /^-(?!--)/.test(text) ? "removed" : null;
    return { kind, text };
  });
}

function merged(tokens: Token[]): Token[] {
  const all: Token[] = [];
  for (const token of tokens) {
    const last = all[all.length - 1];
    if (last && last.kind === token.kind) last.text += token.text;
    else all.push({ ...token });
  }
  return all;
}

/** The language of a file by its name. */
export function languageOf(path: string): string {
  const name = path.split("/").pop() ?? "";
  const ending = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase();
  return ending ?? (/^(?:Makefile|Dockerfile)$/.test(name) ? "sh" : "text");
}
