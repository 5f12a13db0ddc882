//! Bytes as a rule and a command: whatever they are, they have an answer.

mod rules;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        rules::check(&bytes);
    }

    #[test]
    fn any_shell_characters_have_an_answer(
        text in "[-$`(){}<>|&;#*?!\\[\\]'\"\\\\ \n\ta-c=0-9~@%]{0,120}",
    ) {
        rules::check(text.as_bytes());
    }
}
