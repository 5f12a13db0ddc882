//! What the user chose in the page.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The choices by name. Only the page knows what they mean, so that it can have new ones without a
/// new daemon.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Preferences(pub BTreeMap<String, serde_json::Value>);
