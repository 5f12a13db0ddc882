//! Folding and terms of arbitrary texts.

use proptest::prelude::*;

use crate::fold::{fold, fold_with_origins, split_at_lines};
use crate::postings_builder::PostingsBuilder;
use crate::tokenizer::{CharClass, TERM_BYTES_MAX, bigrams, char_runs, tokenize, truncate_term};

#[test]
fn folding_is_idempotent() {
    for c in '\0'..=char::MAX {
        let once = fold(&c.to_string());
        assert_eq!(fold(&once), once, "{c:?} {:x}", u32::from(c));
    }
}

#[test]
fn marks_that_make_letters_stay() {
    for (one, other) in [("か", "が"), ("หมา", "หม้า"), ("कि", "की"), ("한", "하")]
    {
        assert_ne!(fold(one), fold(other));
    }
    assert_eq!(fold("ｶﾞ"), fold("ガ"));
    assert_eq!(fold("\u{1112}\u{1161}\u{11AB}"), fold("한"));
}

#[test]
fn scripts_without_blanks_become_bigrams() {
    assert_eq!(bigrams("用户登录").collect::<Vec<_>>(), ["用户", "户登", "登录", "录"]);
    assert_eq!(bigrams("用").collect::<Vec<_>>(), ["用"]);
    assert_eq!(terms_of(&["Foo_1 foo_1 用户bar-用户"]), ["bar", "foo_1", "户", "用户"]);
}

#[test]
fn each_term_is_kept_once() {
    let text: String =
        (0..20_000).map(|n| format!("w{} {n:x}_and_some_more ", n % 7_000)).collect();
    let terms = terms_of(&[&text, &text]);
    assert_eq!(terms.len(), 27_000);
    assert!(terms.is_sorted_by(|one, next| one < next));
}

#[test]
fn postings_name_documents_of_term() {
    let mut postings = PostingsBuilder::default();
    for (offset, text) in [(3, "one two"), (5, "two two"), (9, "three"), (12, "two one")] {
        postings.start_document(offset);
        postings.add_text(text);
    }
    assert!(postings.drop_document(9) && !postings.drop_document(4));
    assert_eq!(
        collect_postings(&postings),
        [("one".into(), vec![3, 12]), ("two".into(), vec![3, 5, 12])]
    );
    assert_eq!(postings.offsets(), Some(3..13));
}

/// Every term with its postings, in the order they are visited.
fn collect_postings(postings: &PostingsBuilder) -> Vec<(String, Vec<u32>)> {
    let mut terms = Vec::new();
    let visited = postings.visit_terms(|term, postings| {
        terms.push((String::from_utf8(term.to_vec())?, postings.to_vec()));
        Ok::<_, std::string::FromUtf8Error>(())
    });
    visited.unwrap();
    terms
}

/// The terms the index keeps of the texts of one document.
fn terms_of(texts: &[&str]) -> Vec<String> {
    let mut postings = PostingsBuilder::default();
    postings.start_document(0);
    texts.iter().for_each(|text| postings.add_text(&fold(text)));
    collect_postings(&postings).into_iter().map(|(term, _)| term).collect()
}

/// Words of all lengths in several scripts, with and without separators.
fn text_of_all_kinds() -> impl Strategy<Value = String> {
    "([a-z0-9_]{1,80}|[a-z]{1,9}[ .:-]{1,3}|[äжα]{1,3}|[用户登]{1,4}|[–“→]{1,2}|[ \\n]{1,70}){0,40}"
}

proptest! {
    #[test]
    fn folded_text_knows_its_origins(text in "\\PC{0,40}") {
        let folded = fold_with_origins(&text);
        prop_assert_eq!(&folded.text, &fold(&text));
        // Marks alone fold to nothing, which has no origin.
        let origin = folded.origin(0..folded.text.len());
        prop_assert!(folded.text.is_empty() || origin.end == text.len(), "{:?}", origin);
        for (at, c) in folded.text.char_indices() {
            let origin = folded.origin(at..at + c.len_utf8());
            let piece = text.get(origin);
            prop_assert!(piece.is_some_and(|piece| fold(piece).contains(c)), "{:?}", c);
        }
    }

    #[test]
    fn split_text_folds_the_same(
        text in "([a-zA-Z]{1,5}|[ÄÖé用户]{1,3}|\u{301}|\u{1B}\\[3?1?m?|[\n ]{1,2}){0,30}",
        bytes_min in 1..12_usize,
    ) {
        let together: String = split_at_lines(&text, bytes_min).map(fold).collect();
        prop_assert_eq!(together, fold(&text));
        prop_assert_eq!(split_at_lines(&text, bytes_min).collect::<String>(), text);
    }

    #[test]
    fn tokenizer_agrees_with_char_runs(text in text_of_all_kinds()) {
        let mut found = Vec::new();
        tokenize(&text, |word| found.push(word));
        let expected: Vec<&str> = char_runs(&text)
            .flat_map(|(run, class)| match class {
                CharClass::Spaced => vec![truncate_term(&text[run])],
                _ => bigrams(&text[run]).collect(),
            })
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn terms_are_folded_and_bounded(text in any::<String>()) {
        for term in terms_of(&[&text]) {
            prop_assert!(term.len() <= TERM_BYTES_MAX);
            prop_assert!(!term.contains(|c: char| c.is_ascii_uppercase() || "\"*:^".contains(c)));
        }
    }
}
