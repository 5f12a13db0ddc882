//! Secrets out of text.
