//! Folding and words, whatever the text.

use proptest::prelude::*;

use crate::search::fold::{fold, fold_mapped, pieces};
use crate::search::gathering::Gathering;
use crate::search::words::{Class, WORD_LEN_MAX, cut, index_words, pairs, runs};

#[test]
fn folding_a_character_twice_changes_nothing() {
    for c in '\0'..=char::MAX {
        let once = fold(&c.to_string());
        assert_eq!(fold(&once), once, "{c:?} {:x}", u32::from(c));
    }
}

#[test]
fn letters_that_marks_make_different_stay_different() {
    for (one, other) in [("か", "が"), ("หมา", "หม้า"), ("कि", "की"), ("한", "하")]
    {
        assert_ne!(fold(one), fold(other));
    }
    assert_eq!(fold("ｶﾞ"), fold("ガ"));
    assert_eq!(fold("\u{1112}\u{1161}\u{11AB}"), fold("한"));
}

#[test]
fn a_script_without_blanks_is_kept_in_pairs() {
    assert_eq!(pairs("用户登录").collect::<Vec<_>>(), ["用户", "户登", "登录", "录"]);
    assert_eq!(pairs("用").collect::<Vec<_>>(), ["用"]);
    assert_eq!(words_of(&["Foo_1 foo_1 用户bar-用户"]), ["bar", "foo_1", "户", "用户"]);
}

#[test]
fn many_words_are_each_kept_once() {
    let text: String =
        (0..20_000).map(|n| format!("w{} {n:x}_and_some_more ", n % 7_000)).collect();
    let words = words_of(&[&text, &text]);
    assert_eq!(words.len(), 27_000);
    assert!(words.is_sorted_by(|one, next| one < next));
}

#[test]
fn words_know_the_events_they_stand_in() {
    let mut gathering = Gathering::default();
    for (place, text) in [(3, "one two"), (5, "two two"), (9, "three"), (12, "two one")] {
        gathering.begin(place);
        gathering.add_text(text);
    }
    assert!(gathering.drop(9) && !gathering.drop(4));
    assert_eq!(by_word(&gathering), [("one".into(), vec![3, 12]), ("two".into(), vec![3, 5, 12])]);
    assert_eq!(gathering.places(), Some(3..13));
}

/// Every word with its places, in the order they are told.
fn by_word(gathering: &Gathering) -> Vec<(String, Vec<u32>)> {
    let mut words = Vec::new();
    let told = gathering.by_word(|word, places| {
        words.push((String::from_utf8(word.to_vec())?, places.to_vec()));
        Ok::<_, std::string::FromUtf8Error>(())
    });
    told.unwrap();
    words
}

/// The words the index keeps of texts of one event.
fn words_of(texts: &[&str]) -> Vec<String> {
    let mut gathering = Gathering::default();
    gathering.begin(0);
    texts.iter().for_each(|text| gathering.add_text(&fold(text)));
    by_word(&gathering).into_iter().map(|(word, _)| word).collect()
}

/// Words of all lengths in several scripts, with and without something in between.
fn text_of_all_kinds() -> impl Strategy<Value = String> {
    "([a-z0-9_]{1,80}|[a-z]{1,9}[ .:-]{1,3}|[äжα]{1,3}|[用户登]{1,4}|[–“→]{1,2}|[ \\n]{1,70}){0,40}"
}

proptest! {
    #[test]
    fn folded_text_knows_where_it_came_from(text in "\\PC{0,40}") {
        let mapped = fold_mapped(&text);
        prop_assert_eq!(&mapped.text, &fold(&text));
        // Marks alone fold to nothing, and nothing comes from anywhere.
        let source = mapped.source(0..mapped.text.len());
        prop_assert!(mapped.text.is_empty() || source.end == text.len(), "{:?}", source);
        for (at, c) in mapped.text.char_indices() {
            let source = mapped.source(at..at + c.len_utf8());
            let piece = text.get(source);
            prop_assert!(piece.is_some_and(|piece| fold(piece).contains(c)), "{:?}", c);
        }
    }

    #[test]
    fn pieces_fold_as_they_do_together(
        text in "([a-zA-Z]{1,5}|[ÄÖé用户]{1,3}|\u{301}|\u{1B}\\[3?1?m?|[\n ]{1,2}){0,30}",
        bytes_min in 1..12_usize,
    ) {
        let together: String = pieces(&text, bytes_min).map(fold).collect();
        prop_assert_eq!(together, fold(&text));
        prop_assert_eq!(pieces(&text, bytes_min).collect::<String>(), text);
    }

    #[test]
    fn words_are_found_wherever_they_stand(text in text_of_all_kinds()) {
        let mut found = Vec::new();
        index_words(&text, |word| found.push(word));
        let expected: Vec<&str> = runs(&text)
            .flat_map(|(run, class)| match class {
                Class::Spaced => vec![cut(&text[run])],
                _ => pairs(&text[run]).collect(),
            })
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn words_of_the_index_are_words(text in any::<String>()) {
        for word in words_of(&[&text]) {
            prop_assert!(word.len() <= WORD_LEN_MAX);
            prop_assert!(!word.contains(|c: char| c.is_ascii_uppercase() || "\"*:^".contains(c)));
        }
    }
}
