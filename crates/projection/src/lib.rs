//! Events folded into what people look at.
