//! The names of models: what hosts put around them, and which family and version they tell.

/// The longest region before a vendor's name, such as `us.` and `global.`.
const REGION_LEN_MAX: usize = 8;

/// A number of more digits is a date or a build, not a version. Four are a year and a month, as in
/// `mistral-large-2411`, and tell which release is newer.
const VERSION_DIGITS_MAX: usize = 4;

/// The names a model may stand under in a table, the most exact first.
///
/// Hosts put a vendor before a model, and a version, a date or a variant behind it.
pub(crate) fn lookup_names(model: &str) -> Vec<String> {
    let whole = model.trim().to_lowercase();
    // `openrouter/anthropic/claude-…` and `us.anthropic.claude-…` are one model.
    let mut name = whole.rsplit('/').next().unwrap_or_default();
    if let Some((region, rest)) = name.split_once("anthropic.")
        && region.len() <= REGION_LEN_MAX
    {
        name = rest;
    }
    let mut names = vec![whole.clone(), name.to_owned()];
    while let Some(shorter) = without_last_mark(name) {
        name = shorter;
        names.push(name.to_owned());
    }
    // Some hosts write the version of a Claude model with a dot.
    if name.starts_with("claude") && name.contains('.') {
        names.push(name.replace('.', "-"));
    }
    names
}

/// The name without what hosts, dates and variants add to it.
pub(crate) fn bare_name(model: &str) -> String {
    lookup_names(model).pop().expect("the list begins with the name itself")
}

/// The family of a model and its version in the family, so that the newest one compares greatest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ModelFamily {
    /// The words of the name, without its numbers: `claude opus`, `gemini flash lite`.
    pub words: Vec<String>,
    pub version: Version,
}

/// The numbers of a name. A part behind a dot is a decimal fraction: 4.20 came before 4.3.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Version(Vec<(u32, String)>);

impl ModelFamily {
    /// Reads a name as [`bare_name`] gives it.
    pub(crate) fn parse(name: &str) -> ModelFamily {
        let mut family = ModelFamily { words: Vec::new(), version: Version::default() };
        for part in name.split('-') {
            // `qwen3.8` and `k2.6` have the version at their end.
            let digits_at = part.find(|letter: char| letter.is_ascii_digit()).unwrap_or(part.len());
            let (word, number) = part.split_at(digits_at);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number(whole) || !is_number(fraction) {
                // `8b` and `4.5v` are sizes and variants, which tell models of a family apart.
                family.words.push(part.to_owned());
                continue;
            }
            if !word.is_empty() {
                family.words.push(word.to_owned());
            }
            if whole.len() <= VERSION_DIGITS_MAX
                && let Ok(whole) = whole.parse()
            {
                family.version.0.push((whole, fraction.to_owned()));
            }
        }
        family
    }
}

/// The name without the last thing that only tells one release of a model from another.
fn without_last_mark(name: &str) -> Option<&str> {
    // `:free`, `@20251101`, `[1m]`: a variant, a date or a size of context.
    for mark in [':', '@', '['] {
        if let Some((name, _)) = name.split_once(mark) {
            return Some(name);
        }
    }
    let ends = ["-latest", "-preview", "-exp", "-v1", "-v2", "-thinking", "-beta"];
    if let Some(name) = ends.iter().find_map(|end| name.strip_suffix(end)) {
        return Some(name);
    }
    // -20251101, -2025-08-07, -09-2025, -05-06
    let (rest, last) = name.rsplit_once('-')?;
    let is_number = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
    if is_number(last, 8) {
        return Some(rest);
    }
    // The rest are dates in two or three parts. A name such as `gpt-4-32k` has none.
    if !is_number(last, 2) && !is_number(last, 4) {
        return None;
    }
    let (rest, month) = rest.rsplit_once('-')?;
    if !is_number(month, 2) {
        return None;
    }
    if is_number(last, 4) {
        return Some(rest);
    }
    match rest.rsplit_once('-') {
        Some((rest, year)) if is_number(year, 4) => Some(rest),
        // `-05-06` is a date only behind `-preview`; `claude-opus-4-5` has none.
        Some((_, "preview" | "exp")) => Some(rest),
        _ => None,
    }
}
