//! `hansard completions` and `hansard man`: what the command line says of itself, for shells and
//! for readers.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;

use super::{Done, Hansard};
use crate::error::CliError;
use crate::output::Output;

/// Print what a shell needs to complete commands and options.
///
/// For bash: `hansard completions bash >~/.local/share/bash-completion/completions/hansard`. For
/// zsh: `hansard completions zsh >~/.zfunc/_hansard`, in a folder of your `fpath`. For fish:
/// `hansard completions fish >~/.config/fish/completions/hansard.fish`.
#[derive(Args)]
pub(crate) struct Completions {
    shell: Shell,
}

/// Write the manual pages, one per command.
///
/// `hansard man ~/.local/share/man/man1` puts them where `man hansard` finds them.
#[derive(Args)]
pub(crate) struct Man {
    /// The folder they go to, made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Completions {
    pub(crate) fn run(&self, output: &mut Output) -> Result<Done, CliError> {
        let mut command = Hansard::command();
        clap_complete::generate(self.shell, &mut command, "hansard", output.writer());
        output.flush()?;
        Ok(Done::Yes)
    }
}

impl Man {
    pub(crate) fn run(&self, output: &mut Output) -> Result<Done, CliError> {
        std::fs::create_dir_all(&self.folder)?;
        let mut command = Hansard::command().disable_help_subcommand(true);
        // Every page names its command with those above it.
        command.build();
        let count = write(&command, &self.folder)?;
        output.line(format!("{count} pages are in {}", self.folder.display()))?;
        output.flush()?;
        Ok(Done::Yes)
    }
}

/// Writes the page of a command and those below it; how many.
fn write(command: &clap::Command, folder: &Path) -> Result<usize, CliError> {
    let page = Page::new(command.clone());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    std::fs::write(folder.join(page.get_filename()), bytes)?;
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write(below, folder)?;
    }
    Ok(count)
}
