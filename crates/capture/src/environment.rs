//! Home and environment variables, as they are handed in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where agents may look for their folders.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    home: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Environment {
    pub fn new(
        home: impl Into<PathBuf>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Environment {
        Environment { home: home.into(), variables: variables.into_iter().collect() }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A variable that is set and not blank.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    /// The folder a variable names, else one below home. A relative value is ignored, as the
    /// agents do.
    pub fn agent_folder(&self, variable: &str, below_home: &str) -> PathBuf {
        self.absolute(variable).unwrap_or_else(|| self.home.join(below_home))
    }

    /// A variable that names an absolute path.
    pub fn absolute(&self, variable: &str) -> Option<PathBuf> {
        self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The folder for a program's data, by the convention of the desktop.
    pub fn data_folder(&self, program: &str) -> PathBuf {
        self.agent_folder("XDG_DATA_HOME", ".local/share").join(program)
    }
}
