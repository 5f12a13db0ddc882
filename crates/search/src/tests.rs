//! Search over a plain list of texts: the index against reading through, case by case and by
//! generated texts and queries.

mod collection; // documents and their index in memory
mod cases; // what is found and what is not
mod pages; // from page to page
mod agreement; // generated texts and queries
mod tokens; // folding and terms of generated texts
mod segments; // indexed in many small transactions
